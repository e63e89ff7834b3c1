/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _VFIO_FORWARD_INTERNAL_H
#define _VFIO_FORWARD_INTERNAL_H

#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/kvm_host.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "vfio/platform/vfio_platform_private.h"
#include "vfio_forward.h"

/**
 * struct vf_forward - a forwarded interrupt
 * @entry: in the list of all of them; under vf_lock
 * @put: gives back @kvm and frees this structure, outside of all locks
 * @owner: the open file of /dev/vfio-forward that asked for it
 * @vdev: the device; open as long as this structure is in the list
 * @index: the device's interrupt
 * @host_irq: its Linux number
 * @hwintid: its number in the host's GIC
 * @kvm: the VM, with a reference
 * @intid: the guest's interrupt
 * @handler: VFIO's interrupt handler
 * @dev_id: and its argument
 * @name: VFIO's name of the interrupt
 * @was_enabled: VFIO had a trigger, so the interrupt was enabled but for masks
 * @taken_before: interrupts that the host had taken before FORWARD
 * @injected: interrupts given to the guest; written by the handler only
 */
struct vf_forward {
	struct list_head entry;
	struct work_struct put;
	struct file *owner;

	struct vfio_platform_device *vdev;
	u32 index;
	unsigned int host_irq;
	u32 hwintid;

	struct kvm *kvm;
	u32 intid;

	irq_handler_t handler;
	void *dev_id;
	char *name;
	bool was_enabled;
	unsigned int taken_before;
	u64 injected;
};

/* symbols.c */
int vf_symbols_find(void);
void vf_inject(struct kvm *kvm, u32 intid, void *owner);
bool vf_is_vfio_device(struct file *file);

/* vgic.c */
int vf_vgic_map(struct vf_forward *f);
void vf_vgic_unmap(struct vf_forward *f);
bool vf_vgic_is_mapped(struct vf_forward *f);

/* line.c */
int vf_line_take(struct vf_forward *f);
void vf_line_give_back(struct vf_forward *f);
void vf_line_count(struct vf_forward *f, u64 *injected, u64 *other);
bool vf_line_is_active(struct vf_forward *f);

/* device.c */
extern void (*vf_device_closes)(struct vfio_platform_device *vdev);
struct vfio_platform_device *vf_device_of(struct file *file);
int vf_device_watch(struct vfio_platform_device *vdev);
void vf_device_unwatch(struct vfio_platform_device *vdev);
void vf_device_exit(void);

#endif /* _VFIO_FORWARD_INTERNAL_H */
