// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel has and does not export: the address of a function is that of
 * a kprobe on it. Both functions are looked up when the module is loaded, so a
 * kernel without one of them refuses the module.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/version.h>

#include "internal.h"

static typeof(kvm_vgic_inject_irq) *vf_vgic_inject_irq;
static long (*vf_vfio_device_ioctl)(struct file *file, unsigned int cmd, unsigned long arg);

static void *vf_find(const char *name)
{
	struct kprobe probe = { .symbol_name = name };
	void *address;
	int ret;

	ret = register_kprobe(&probe);
	if (ret) {
		pr_err("this kernel has no function %s that a probe finds (error %d)\n",
		       name, ret);
		return NULL;
	}
	address = probe.addr;
	unregister_kprobe(&probe);
	return address;
}

int vf_symbols_find(void)
{
	vf_vgic_inject_irq = vf_find("kvm_vgic_inject_irq");
	vf_vfio_device_ioctl = vf_find("vfio_device_fops_unl_ioctl");
	return vf_vgic_inject_irq && vf_vfio_device_ioctl ? 0 : -EOPNOTSUPP;
}

/* Raises the guest's interrupt. Called from the physical one's handler. */
void vf_inject(struct kvm *kvm, u32 intid, void *owner)
{
	/* Up to Linux 6.6 the second argument is a vCPU's number. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
	vf_vgic_inject_irq(kvm, NULL, intid, true, owner);
#else
	vf_vgic_inject_irq(kvm, 0, intid, true, owner);
#endif
}

/* VFIO exports no test for a device's file; its ioctl function is its own. */
bool vf_is_vfio_device(struct file *file)
{
	return file->f_op->unlocked_ioctl == vf_vfio_device_ioctl;
}
