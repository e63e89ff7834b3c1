/* QEMU's libvhost-user, compiled on its own, as a subject. Its rings are set here; it never sees a socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libvhost-user.h"
#include "subject.h"

struct qemu_device {
	VuDev device;
	VuVirtq queue;
};

static void fail(VuDev *dev, const char *error)
{
	fprintf(stderr, "libvhost-user: %s\n", error);
	abort();
}

/* libvhost-user's eventfd_write, which the build renames. */
int subject_eventfd_write(int fd, uint64_t value)
{
	subject_interrupt();
	return 0;
}

struct qemu_device *qemu_device_new(const struct subject_ring *ring, uint64_t memory_size)
{
	struct qemu_device *new = calloc(1, sizeof(*new));
	VuDev *device;
	VuVirtq *queue;

	if (!new)
		abort();
	device = &new->device;
	queue = &new->queue;
	*device = (VuDev){ .vq = queue, .max_queues = 1, .panic = fail, .nregions = 1 };
	device->sock = device->slave_fd = device->log_call_fd = -1;
	device->regions[0].size = memory_size;
	device->regions[0].qva = device->regions[0].mmap_addr = (uintptr_t)ring->memory;
	device->features = 1ULL << VIRTIO_F_VERSION_1 | (uint64_t)ring->event_idx << VIRTIO_RING_F_EVENT_IDX;
	*queue = (VuVirtq){ .notification = true, .enable = 1, .started = true, .kick_fd = -1, .err_fd = -1 };
	queue->vring.num = ring->size;
	queue->vring.desc = (void *)(ring->memory + ring->descriptors);
	queue->vring.avail = (void *)(ring->memory + ring->driver);
	queue->vring.used = (void *)(ring->memory + ring->device);
	queue->last_avail_idx = queue->shadow_avail_idx = queue->used_idx = ring->start;
	return new;
}

void qemu_device_free(struct qemu_device *device)
{
	free(device);
}

void qemu_device_serve(struct qemu_device *served, enum subject_service service, bool mended)
{
	VuDev *device = &served->device;
	VuVirtq *queue = &served->queue;
	VuVirtqElement *element, *taken[64];
	unsigned int n = 0, i;
	bool any = false;

	while ((element = vu_queue_pop(device, queue, sizeof(*element)))) {
		if (mended)
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		any = true;
		if (service == SUBJECT_TAKE_ALL_FIRST) {
			if (n == sizeof(taken) / sizeof(*taken))
				abort();
			taken[n++] = element;
			continue;
		}
		vu_queue_push(device, queue, element, 0);
		free(element);
		if (service == SUBJECT_EACH)
			vu_queue_notify(device, queue);
	}
	for (i = 0; i < n; i++) {
		vu_queue_push(device, queue, taken[i], 0);
		free(taken[i]);
		vu_queue_notify(device, queue);
	}
	if (service == SUBJECT_ASK_AT_THE_END && any)
		vu_queue_notify(device, queue);
}
