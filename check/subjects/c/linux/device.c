/* Linux' vringh.c, compiled on its own, as a subject. */
#include <linux/vringh.h>
#include <linux/virtio_config.h>
#include "subject.h"

static struct vringh vringh;

void linux_device_new(const struct subject_ring *ring)
{
	struct vring split;

	vring_init(&split, ring->size, ring->memory, 4);
	if (vringh_init_kern(&vringh,
			     1ULL << VIRTIO_F_VERSION_1 | (u64)ring->event_idx << VIRTIO_RING_F_EVENT_IDX,
			     ring->size, true, split.desc, split.avail, split.used))
		abort();
	vringh.last_avail_idx = vringh.last_used_idx = ring->start;
}

static void ask(void)
{
	if (vringh_need_notify_kern(&vringh) > 0)
		subject_interrupt();
}

/* Whether there was a chain. */
static bool serve_one(void)
{
	struct kvec readable[4], writable[4];
	struct vringh_kiov in, out;
	unsigned short head;
	int found;

	vringh_kiov_init(&in, readable, ARRAY_SIZE(readable));
	vringh_kiov_init(&out, writable, ARRAY_SIZE(writable));
	found = vringh_getdesc_kern(&vringh, &in, &out, &head, GFP_ATOMIC);
	if (found < 0 || (found && vringh_complete_kern(&vringh, head, 0)))
		abort();
	return found;
}

void linux_device_run(bool batch)
{
	for (;;) {
		subject_wait_kick();
		do {
			bool any = false;

			vringh_notify_disable_kern(&vringh);
			while (serve_one()) {
				any = true;
				if (!batch)
					ask();
			}
			if (batch && any)
				ask();
		} while (!vringh_notify_enable_kern(&vringh));
	}
}
