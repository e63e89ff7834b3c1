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
/* Sleeps until there is an interrupt, and clears it. */
void subject_wait_interrupt(void);

/* A ring of `size` in `memory`, with its three parts at these offsets. Linux's driver has its own layout: as vring_init with
 * an alignment of 4, and packed rings without gaps. */
struct subject_ring {
	uint8_t *memory;
	uint32_t descriptors, driver, device;
	uint32_t size;
	bool packed;
	bool event_idx;
	bool in_order;
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
struct linux_driver;
struct linux_driver *linux_driver_new(const struct subject_ring *ring);
void linux_driver_free(struct linux_driver *driver);
/* Sends `requests` buffers, at most `depth` at once, and returns when all came back. */
void linux_driver_run(struct linux_driver *driver, uint32_t requests, uint32_t depth,
		      enum subject_callbacks callbacks);
/* Single steps: add makes a buffer available, take returns whether one came back. */
void linux_driver_add(struct linux_driver *driver);
bool linux_driver_take(struct linux_driver *driver);
/* One request: a buffer that the device writes, and perhaps one that it reads. A length of 0 is no buffer. */
struct subject_request {
	uint64_t n;
	uint64_t readable, writable;
	uint32_t readable_length, writable_length;
};
/* Makes this request available; returns whether a request came back, with its number and its length. */
void linux_driver_add_request(struct linux_driver *driver, const struct subject_request *request);
bool linux_driver_take_request(struct linux_driver *driver, uint64_t *n, uint32_t *length);
/* virtqueue_kick_prepare, virtqueue_disable_cb, virtqueue_enable_cb, virtqueue_enable_cb_delayed,
 * virtqueue_enable_cb_prepare and virtqueue_poll. */
bool linux_driver_wants_kick(struct linux_driver *driver);
void linux_driver_disable_cb(struct linux_driver *driver);
bool linux_driver_enable_cb(struct linux_driver *driver);
bool linux_driver_enable_cb_delayed(struct linux_driver *driver);
uint32_t linux_driver_prepare(struct linux_driver *driver);
bool linux_driver_poll(struct linux_driver *driver, uint32_t opaque);
/* Whether it has taken a part of a batch that a device gave back in order. */
bool linux_driver_holds_batch(struct linux_driver *driver);

/* Linux' drivers/vhost/vringh.c: split rings only. */
struct linux_device;
struct linux_device *linux_device_new(const struct subject_ring *ring);
void linux_device_free(struct linux_device *device);
/* Single steps: serve takes and returns one chain, if there is one; enable returns whether there is another. */
void linux_device_disable(struct linux_device *device);
bool linux_device_serve(struct linux_device *device);
/* The same in two steps: take returns a request without its number, and its head; a negative number if vringh refuses it. */
int linux_device_take(struct linux_device *device, struct subject_request *request, uint16_t *head);
void linux_device_give_back(struct linux_device *device, uint16_t head, uint32_t length);
bool linux_device_wants_interrupt(struct linux_device *device);
bool linux_device_enable(struct linux_device *device);

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
struct qemu_device;
struct qemu_device *qemu_device_new(const struct subject_ring *ring, uint64_t memory_size);
void qemu_device_free(struct qemu_device *device);
/* Serves what the queue has; `mended`: with a full barrier after each vu_queue_pop. */
void qemu_device_serve(struct qemu_device *device, enum subject_service service, bool mended);
#endif
