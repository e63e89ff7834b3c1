/* QEMU's libvhost-user, compiled on its own, as a subject. Its rings are set here; it never sees a socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libvhost-user.h"
#include "subject.h"

static VuDev device;
static VuVirtq queue;

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

void qemu_device_new(const struct subject_ring *ring, uint64_t memory_size)
{
	size_t avail = 16 * ring->size, used = (avail + 6 + 2 * ring->size + 3) & ~3;

	device = (VuDev){ .vq = &queue, .max_queues = 1, .panic = fail, .nregions = 1 };
	device.sock = device.slave_fd = device.log_call_fd = -1;
	device.regions[0].size = memory_size;
	device.regions[0].qva = device.regions[0].mmap_addr = (uintptr_t)ring->memory;
	device.features = 1ULL << VIRTIO_F_VERSION_1 | (uint64_t)ring->event_idx << VIRTIO_RING_F_EVENT_IDX;
	queue = (VuVirtq){ .notification = true, .enable = 1, .started = true, .kick_fd = -1, .err_fd = -1 };
	queue.vring.num = ring->size;
	queue.vring.desc = (void *)ring->memory;
	queue.vring.avail = (void *)(ring->memory + avail);
	queue.vring.used = (void *)(ring->memory + used);
	queue.last_avail_idx = queue.shadow_avail_idx = queue.used_idx = ring->start;
}

static void complete(VuVirtqElement *element)
{
	vu_queue_push(&device, &queue, element, 0);
	free(element);
}

void qemu_device_serve(enum subject_service service, bool mended)
{
	VuVirtqElement *element, *taken[64];
	unsigned int n = 0, i;
	bool any = false;

	while ((element = vu_queue_pop(&device, &queue, sizeof(*element)))) {
		if (mended)
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		any = true;
		if (service == SUBJECT_TAKE_ALL_FIRST) {
			if (n == sizeof(taken) / sizeof(*taken))
				abort();
			taken[n++] = element;
			continue;
		}
		complete(element);
		if (service == SUBJECT_EACH)
			vu_queue_notify(&device, &queue);
	}
	for (i = 0; i < n; i++) {
		complete(taken[i]);
		vu_queue_notify(&device, &queue);
	}
	if (service == SUBJECT_ASK_AT_THE_END && any)
		vu_queue_notify(&device, &queue);
}

void qemu_device_run(enum subject_service service, bool mended)
{
	for (;;) {
		subject_wait_kick();
		qemu_device_serve(service, mended);
	}
}
