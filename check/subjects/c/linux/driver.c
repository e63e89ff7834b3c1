/*
 * Linux' virtio_ring.c as a subject. The file is included, because a split ring that starts at an index other than 0, and
 * the peek at a waiting buffer, need its private structures.
 */
#include <linux/kernel.h>

static void *pages(size_t size);
#define alloc_pages_exact(size, flags) pages(size)
#define free_pages_exact(address, size) ((void)(address))
#include "drivers/virtio/virtio_ring.c"
#include "subject.h"

/* tools/virtio's allocator takes these from its test programs. */
void *__kmalloc_fake, *__kfree_ignore_start, *__kfree_ignore_end;

struct linux_driver {
	struct subject_ring ring;
	struct virtio_device device;
	struct virtqueue *queue;
	uint32_t received;
	enum subject_callbacks callbacks;
};

/* The ring whose queue this thread creates, and how many of its parts were asked for. */
static _Thread_local const struct subject_ring *creating;
static _Thread_local uint32_t parts;

/* A packed ring asks three times: for descriptors, driver and device event suppression. */
static void *pages(size_t size)
{
	uint32_t n = parts++;

	return creating->memory + (n ? 16 * creating->size + 4 * (n - 1) : 0);
}

static struct linux_driver *driver_of(struct virtqueue *vq)
{
	return container_of(vq->vdev, struct linux_driver, device);
}

static bool notify(struct virtqueue *vq)
{
	subject_kick();
	return true;
}

static void take_all(struct virtqueue *vq)
{
	unsigned int length;

	while (virtqueue_get_buf(vq, &length))
		driver_of(vq)->received++;
}

static void interrupted(struct virtqueue *vq)
{
	enum subject_callbacks callbacks = driver_of(vq)->callbacks;
	bool again;

	do {
		if (callbacks != SUBJECT_ALWAYS_ON)
			virtqueue_disable_cb(vq);
		take_all(vq);
		switch (callbacks) {
		case SUBJECT_ENABLE_CB:
			again = !virtqueue_enable_cb(vq);
			break;
		case SUBJECT_PREPARE_AND_POLL:
			again = virtqueue_poll(vq, virtqueue_enable_cb_prepare(vq));
			break;
		case SUBJECT_ENABLE_CB_DELAYED:
			again = !virtqueue_enable_cb_delayed(vq);
			break;
		default:
			again = false;
		}
	} while (again);
}

struct linux_driver *linux_driver_new(const struct subject_ring *ring)
{
	struct linux_driver *driver = calloc(1, sizeof(*driver));
	struct vring_virtqueue *vq;

	if (!driver)
		abort();
	driver->ring = *ring;
	INIT_LIST_HEAD(&driver->device.vqs);
	spin_lock_init(&driver->device.vqs_list_lock);
	driver->device.features = 1ULL << VIRTIO_F_VERSION_1 | (u64)ring->packed << VIRTIO_F_RING_PACKED |
				  (u64)ring->event_idx << VIRTIO_RING_F_EVENT_IDX |
				  (u64)ring->in_order << VIRTIO_F_IN_ORDER;
	creating = &driver->ring;
	parts = 0;
	driver->queue = vring_create_virtqueue(0, ring->size, 4, &driver->device, true, false, false, notify,
					       interrupted, "subject");
	if (!driver->queue)
		abort();
	if (ring->packed || !ring->start)
		return driver;
	vq = to_vvq(driver->queue);
	vq->split.avail_idx_shadow = ring->start;
	vq->last_used_idx = ring->start;
	vq->split.vring.avail->idx = ring->start;
	vq->split.vring.used->idx = ring->start;
	if (ring->event_idx) {
		vring_used_event(&vq->split.vring) = ring->start;
		vring_avail_event(&vq->split.vring) = ring->start;
	}
	return driver;
}

void linux_driver_free(struct linux_driver *driver)
{
	vring_del_virtqueue(driver->queue);
	free(driver);
}

void linux_driver_add(struct linux_driver *driver)
{
	struct scatterlist sg;

	/* Any address in the guest's memory, after the ring. */
	sg_init_one(&sg, (void *)0x1800, 8);
	if (virtqueue_add_inbuf(driver->queue, &sg, 1, driver, GFP_ATOMIC) < 0)
		abort();
}

void linux_driver_add_request(struct linux_driver *driver, const struct subject_request *request)
{
	struct scatterlist readable, writable, *lists[] = { &readable, &writable };
	unsigned int out = request->readable_length ? 1 : 0;

	sg_init_one(&readable, (void *)(uintptr_t)request->readable, request->readable_length);
	sg_init_one(&writable, (void *)(uintptr_t)request->writable, request->writable_length);
	/* The data is a pointer, which must not be NULL. */
	if (virtqueue_add_sgs(driver->queue, lists + 1 - out, out, 1, (void *)(uintptr_t)(request->n + 1), GFP_ATOMIC))
		abort();
}

bool linux_driver_take_request(struct linux_driver *driver, uint64_t *n, uint32_t *length)
{
	void *data = virtqueue_get_buf(driver->queue, length);

	if (data)
		*n = (uintptr_t)data - 1;
	return data;
}

void linux_driver_run(struct linux_driver *driver, uint32_t requests, uint32_t depth,
		      enum subject_callbacks callbacks)
{
	uint32_t sent = 0;

	driver->callbacks = callbacks;
	for (;;) {
		while (sent < requests && sent - driver->received < depth) {
			linux_driver_add(driver);
			sent++;
			virtqueue_kick(driver->queue);
		}
		if (driver->received == requests)
			return;
		subject_wait_interrupt();
		vring_interrupt(0, driver->queue);
	}
}

bool linux_driver_wants_kick(struct linux_driver *driver)
{
	return virtqueue_kick_prepare(driver->queue);
}

void linux_driver_disable_cb(struct linux_driver *driver)
{
	virtqueue_disable_cb(driver->queue);
}

bool linux_driver_enable_cb(struct linux_driver *driver)
{
	return virtqueue_enable_cb(driver->queue);
}

bool linux_driver_enable_cb_delayed(struct linux_driver *driver)
{
	return virtqueue_enable_cb_delayed(driver->queue);
}

bool linux_driver_holds_batch(struct linux_driver *driver)
{
	struct vring_virtqueue *vq = to_vvq(driver->queue);

	return virtqueue_is_in_order(vq) && vq->batch_last.id != UINT_MAX;
}

bool linux_driver_take(struct linux_driver *driver)
{
	unsigned int length;

	return virtqueue_get_buf(driver->queue, &length);
}

uint32_t linux_driver_prepare(struct linux_driver *driver)
{
	return virtqueue_enable_cb_prepare(driver->queue);
}

bool linux_driver_poll(struct linux_driver *driver, uint32_t opaque)
{
	return virtqueue_poll(driver->queue, opaque);
}
