/*
 * Linux' virtio_ring.c as a subject. The file is included, because a split ring that starts at another index than 0, and
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

static struct subject_ring ring;
static struct virtio_device device;
static struct virtqueue *queue;
static uint32_t allocations, received;
static enum subject_callbacks style;

/* A packed ring asks three times: for descriptors, driver and device event suppression. */
static void *pages(size_t size)
{
	uint32_t n = allocations++;

	return ring.memory + (n ? 16 * ring.size + 4 * (n - 1) : 0);
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
		received++;
}

static void interrupted(struct virtqueue *vq)
{
	bool again;

	do {
		if (style != SUBJECT_ALWAYS_ON)
			virtqueue_disable_cb(vq);
		take_all(vq);
		switch (style) {
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

void linux_driver_new(const struct subject_ring *given)
{
	struct vring_virtqueue *vq;

	if (queue)
		vring_del_virtqueue(queue);
	ring = *given;
	allocations = received = 0;
	memset(&device, 0, sizeof(device));
	INIT_LIST_HEAD(&device.vqs);
	spin_lock_init(&device.vqs_list_lock);
	device.features = 1ULL << VIRTIO_F_VERSION_1 | (u64)ring.packed << VIRTIO_F_RING_PACKED |
			  (u64)ring.event_idx << VIRTIO_RING_F_EVENT_IDX;
	queue = vring_create_virtqueue(0, ring.size, 4, &device, true, false, false, notify, interrupted, "subject");
	if (!queue)
		abort();
	if (ring.packed || !ring.start)
		return;
	vq = to_vvq(queue);
	vq->split.avail_idx_shadow = ring.start;
	vq->last_used_idx = ring.start;
	vq->split.vring.avail->idx = ring.start;
	vq->split.vring.used->idx = ring.start;
	if (ring.event_idx) {
		vring_used_event(&vq->split.vring) = ring.start;
		vring_avail_event(&vq->split.vring) = ring.start;
	}
}

static void add(void)
{
	struct scatterlist sg;

	/* Any address in the guest's memory, after the ring. */
	sg_init_one(&sg, (void *)0x1800, 8);
	if (virtqueue_add_inbuf(queue, &sg, 1, &device, GFP_ATOMIC) < 0)
		abort();
}

void linux_driver_run(uint32_t requests, uint32_t depth, enum subject_callbacks callbacks, bool batch)
{
	uint32_t sent = 0;

	style = callbacks;
	for (;;) {
		bool kick = false;

		while (sent < requests && sent - received < depth) {
			add();
			sent++;
			kick = true;
			if (!batch)
				virtqueue_kick(queue);
		}
		if (batch && kick)
			virtqueue_kick(queue);
		if (received == requests)
			return;
		subject_wait_interrupt();
		vring_interrupt(0, queue);
	}
}

void linux_driver_add(void)
{
	add();
	virtqueue_kick(queue);
}

bool linux_driver_take(void)
{
	unsigned int length;

	return virtqueue_get_buf(queue, &length);
}

uint32_t linux_driver_prepare(void)
{
	return virtqueue_enable_cb_prepare(queue);
}

bool linux_driver_poll(uint32_t opaque)
{
	return virtqueue_poll(queue, opaque);
}

__attribute__((no_sanitize("thread"), noinline)) bool linux_driver_is_one_waiting(void)
{
	struct vring_virtqueue *vq = to_vvq(queue);
	u16 last = vq->last_used_idx, flags;
	bool available, used;

	if (!vq->packed_ring)
		return vq->split.vring.used->idx != last;
	flags = vq->packed.vring.desc[last & 0x7fff].flags;
	available = flags & 1 << VRING_PACKED_DESC_F_AVAIL;
	used = flags & 1 << VRING_PACKED_DESC_F_USED;
	return available == used && used == !!(last >> VRING_PACKED_EVENT_F_WRAP_CTR);
}
