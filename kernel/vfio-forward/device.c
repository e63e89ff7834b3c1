// SPDX-License-Identifier: GPL-2.0-only
/*
 * The VFIO device: from its file to its structure, and the moment when it closes.
 *
 * VFIO does not report that a device closes. So a device with forwarded interrupts
 * points to a copy of its operations, whose close_device() ends the forwarding
 * first. There is one copy for each kind of device (vfio-amba, vfio-platform); it
 * stays until the module goes, because VFIO may have read the pointer just before
 * it was restored.
 */

#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/wait_bit.h>

#include "internal.h"
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
#include "vfio/vfio.h"
#endif

struct vf_watched_ops {
	struct vfio_device_ops ops;
	const struct vfio_device_ops *original;
	unsigned int devices;
	struct list_head entry;
};

/* Under vf_lock, which the callers hold. */
static LIST_HEAD(vf_watched);
/* Threads in vf_close_device(). */
static atomic_t vf_closing = ATOMIC_INIT(0);

void (*vf_device_closes)(struct vfio_platform_device *vdev);

static struct vfio_platform_device *vf_platform(struct vfio_device *core)
{
	return container_of(core, struct vfio_platform_device, vdev);
}

/* The last file of the device closes; VFIO holds the lock of its device set. */
static void vf_close_device(struct vfio_device *core)
{
	atomic_inc(&vf_closing);
	vf_device_closes(vf_platform(core));
	/* That has restored the device's operations, or another thread had. */
	if (!WARN_ON_ONCE(core->ops->close_device == vf_close_device))
		core->ops->close_device(core);
	if (atomic_dec_and_test(&vf_closing))
		wake_up_var(&vf_closing);
}

static struct vfio_device *vf_core_of(struct file *file)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	struct vfio_device_file *df = file->private_data;

	/* Paired with the release when the file gets access to the device. */
	return smp_load_acquire(&df->access_granted) ? df->device : NULL;
#else
	return file->private_data;
#endif
}

/* The device of an open VFIO file, or NULL if it is not one of vfio-platform. */
struct vfio_platform_device *vf_device_of(struct file *file)
{
	struct vfio_device *core;

	if (!vf_is_vfio_device(file))
		return NULL;
	core = vf_core_of(file);
	/* vfio-amba has its own operations, but no other ioctl. */
	if (!core || core->ops->ioctl != vfio_platform_ioctl)
		return NULL;
	return vf_platform(core);
}

static struct vf_watched_ops *vf_ops_for(const struct vfio_device_ops *original)
{
	struct vf_watched_ops *watched;

	list_for_each_entry(watched, &vf_watched, entry)
		if (watched->original == original)
			return watched;

	watched = kzalloc(sizeof(*watched), GFP_KERNEL);
	if (watched) {
		watched->original = original;
		list_add(&watched->entry, &vf_watched);
	}
	return watched;
}

/* Has vf_device_closes() called when the device closes. It is open. */
int vf_device_watch(struct vfio_platform_device *vdev)
{
	struct vfio_device *core = &vdev->vdev;
	struct vf_watched_ops *watched;

	if (core->ops->close_device == vf_close_device)
		return 0;
	watched = vf_ops_for(core->ops);
	if (!watched)
		return -ENOMEM;
	if (!watched->devices++) {
		/* The driver may be another one that is at the same address. */
		watched->ops = *core->ops;
		watched->ops.close_device = vf_close_device;
	}
	/* Paired with VFIO's dependent loads through the pointer. */
	smp_store_release(&core->ops, &watched->ops);
	return 0;
}

void vf_device_unwatch(struct vfio_platform_device *vdev)
{
	struct vfio_device *core = &vdev->vdev;
	struct vf_watched_ops *watched;

	watched = container_of(core->ops, struct vf_watched_ops, ops);
	WRITE_ONCE(core->ops, watched->original);
	watched->devices--;
}

/* No device is watched and none can be: waits for the last user. */
void vf_device_exit(void)
{
	struct vf_watched_ops *watched, *next;

	/*
	 * VFIO does not sleep between its load of the pointer and the call, nor
	 * vf_close_device() between its decrement and its return.
	 */
	synchronize_rcu_tasks();
	wait_var_event(&vf_closing, !atomic_read(&vf_closing));
	synchronize_rcu_tasks();
	list_for_each_entry_safe(watched, next, &vf_watched, entry)
		kfree(watched);
}
