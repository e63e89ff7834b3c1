/*
 * What a C subject calls, and what it offers. The checker implements the first group; each function of it is a point
 * where the other side may run.
 *
 * A subject has one queue, in the memory that it is given. It must not use threads, time or file descriptors.
 */
#ifndef SUBJECT_H
#define SUBJECT_H
#include <stdbool.h>
#include <stdint.h>

/* The device gets a notification; the driver gets an interrupt. */
void subject_kick(void);
void subject_interrupt(void);
/* Sleep until there is one, and clear it. */
void subject_wait_kick(void);
void subject_wait_interrupt(void);

/* The layout of a split ring of `size` at `memory`: as vring_init with an alignment of 4. Packed: descriptors, driver
 * event suppression, device event suppression, without gaps. */
struct subject_ring {
	uint8_t *memory;
	uint32_t size;
	bool packed;
	bool event_idx;
	/* The first index, of a split ring. */
	uint16_t start;
};

/* How the driver asks for interrupts. */
enum subject_callbacks {
	/* Off while it works, then virtqueue_enable_cb. */
	SUBJECT_ENABLE_CB = 0,
	/* Off while it works, then virtqueue_enable_cb_prepare and virtqueue_poll. */
	SUBJECT_PREPARE_AND_POLL = 1,
	/* Off while it works, then virtqueue_enable_cb_delayed. */
	SUBJECT_ENABLE_CB_DELAYED = 2,
	SUBJECT_ALWAYS_ON = 3,
};

/* Linux' drivers/virtio/virtio_ring.c. */
void linux_driver_new(const struct subject_ring *ring);
/* Sends `requests` buffers, at most `depth` at once, and returns when all came back. */
void linux_driver_run(uint32_t requests, uint32_t depth, enum subject_callbacks callbacks, bool batch);
/* Single steps, for polling: add makes a buffer available, take returns whether one came back. */
void linux_driver_add(void);
bool linux_driver_take(void);
uint32_t linux_driver_prepare(void);
bool linux_driver_poll(uint32_t opaque);
/* Whether a used buffer waits, read without the checker's knowledge. */
bool linux_driver_is_one_waiting(void);

/* Linux' drivers/vhost/vringh.c: split rings only. */
void linux_device_new(const struct subject_ring *ring);
/* Serves the queue for ever. `batch`: one question per round whether the driver wants an interrupt. */
void linux_device_run(bool batch);

/* When a device asks, after it took chains, whether the driver wants an interrupt. */
enum subject_service {
	/* After each chain. */
	SUBJECT_EACH = 0,
	/* Takes and returns all, then asks. */
	SUBJECT_ASK_AT_THE_END = 1,
	/* Takes all, then returns each and asks. */
	SUBJECT_TAKE_ALL_FIRST = 2,
};

/* QEMU's subprojects/libvhost-user: split rings only. */
void qemu_device_new(const struct subject_ring *ring, uint64_t memory_size);
/* Serves the queue for ever; `mended`: with a full barrier after each vu_queue_pop. */
void qemu_device_run(enum subject_service service, bool mended);
/* The same for one notification. */
void qemu_device_serve(enum subject_service service, bool mended);
#endif
