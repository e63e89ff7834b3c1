/* Linux' vringh.c, compiled on its own, as a subject. */
#include <linux/vringh.h>
#include <linux/virtio_config.h>
#include "subject.h"

struct linux_device {
	struct vringh vringh;
};

struct linux_device *linux_device_new(const struct subject_ring *ring)
{
	struct linux_device *device = calloc(1, sizeof(*device));

	if (!device || vringh_init_kern(&device->vringh,
					1ULL << VIRTIO_F_VERSION_1 | (u64)ring->event_idx << VIRTIO_RING_F_EVENT_IDX,
					ring->size, true, (void *)(ring->memory + ring->descriptors),
					(void *)(ring->memory + ring->driver), (void *)(ring->memory + ring->device)))
		abort();
	device->vringh.last_avail_idx = device->vringh.last_used_idx = ring->start;
	return device;
}

void linux_device_free(struct linux_device *device)
{
	free(device);
}

void linux_device_disable(struct linux_device *device)
{
	vringh_notify_disable_kern(&device->vringh);
}

int linux_device_take(struct linux_device *device, struct subject_request *request, uint16_t *head)
{
	struct kvec readable[4] = {}, writable[4] = {};
	struct vringh_kiov in, out;
	int found;

	vringh_kiov_init(&in, readable, ARRAY_SIZE(readable));
	vringh_kiov_init(&out, writable, ARRAY_SIZE(writable));
	found = vringh_getdesc_kern(&device->vringh, &in, &out, head, GFP_ATOMIC);
	request->readable = (uintptr_t)readable[0].iov_base;
	request->readable_length = readable[0].iov_len;
	request->writable = (uintptr_t)writable[0].iov_base;
	request->writable_length = writable[0].iov_len;
	return found;
}

void linux_device_give_back(struct linux_device *device, uint16_t head, uint32_t length)
{
	if (vringh_complete_kern(&device->vringh, head, length))
		abort();
}

bool linux_device_serve(struct linux_device *device)
{
	struct subject_request request;
	uint16_t head;
	int found = linux_device_take(device, &request, &head);

	if (found < 0)
		abort();
	if (found)
		linux_device_give_back(device, head, 0);
	return found;
}

bool linux_device_wants_interrupt(struct linux_device *device)
{
	return vringh_need_notify_kern(&device->vringh) > 0;
}

bool linux_device_enable(struct linux_device *device)
{
	return !vringh_notify_enable_kern(&device->vringh);
}
