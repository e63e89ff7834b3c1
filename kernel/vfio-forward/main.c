// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/vfio-forward: its ioctls, and the list of what is forwarded.
 *
 * A forwarded interrupt belongs to the open file that asked for it. It ends with
 * UNFORWARD, with the last close of that file or with the last close of the VFIO
 * device; the end of the process that holds the files is all
 * three. The module cannot be removed while such a file is open, so nothing is
 * forwarded when it goes. A VM that is closed stays until then.
 *
 * Locks, from the outer to the inner:
 *   lock of VFIO's device set (VFIO holds it when a device closes)
 *     vf_lock
 *       igate of the device
 *         config_lock of the VM
 *         lock of VFIO's interrupt, lock of the descriptor, irq_lock of the vGIC
 * The reference to the VM is given back from a work item, because the end of a VM
 * may close VFIO's files.
 */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* Protects the list, and the begin and end of each entry. */
static DEFINE_MUTEX(vf_lock);
static LIST_HEAD(vf_forwards);
static struct workqueue_struct *vf_puts;

static void vf_put_work(struct work_struct *work)
{
	struct vf_forward *f = container_of(work, struct vf_forward, put);

	kvm_put_kvm(f->kvm);
	kfree(f);
}

static struct vf_forward *vf_find_forward(struct vfio_platform_device *vdev, u32 index)
{
	struct vf_forward *f;

	list_for_each_entry(f, &vf_forwards, entry)
		if (f->vdev == vdev && f->index == index)
			return f;
	return NULL;
}

static bool vf_has_forwards(struct vfio_platform_device *vdev)
{
	struct vf_forward *f;

	list_for_each_entry(f, &vf_forwards, entry)
		if (f->vdev == vdev)
			return true;
	return false;
}

static void vf_end(struct vf_forward *f)
{
	lockdep_assert_held(&vf_lock);

	vf_line_give_back(f);
	list_del(&f->entry);
	if (!vf_has_forwards(f->vdev))
		vf_device_unwatch(f->vdev);
	queue_work(vf_puts, &f->put);
}

/* Called when the device closes, before VFIO frees its interrupts. */
static void vf_end_device(struct vfio_platform_device *vdev)
{
	struct vf_forward *f, *next;

	mutex_lock(&vf_lock);
	list_for_each_entry_safe(f, next, &vf_forwards, entry)
		if (f->vdev == vdev)
			vf_end(f);
	mutex_unlock(&vf_lock);
}

static int vf_begin(struct file *owner, struct vfio_platform_device *vdev, u32 index,
		    struct kvm *kvm, u32 spi)
{
	struct vf_forward *f;
	int ret;

	lockdep_assert_held(&vf_lock);

	if (vf_find_forward(vdev, index))
		return -EBUSY;
	if (spi > U32_MAX - VGIC_NR_PRIVATE_IRQS)
		return -ERANGE;
	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	INIT_WORK(&f->put, vf_put_work);
	f->owner = owner;
	f->vdev = vdev;
	f->index = index;
	f->kvm = kvm;
	f->intid = spi + VGIC_NR_PRIVATE_IRQS;

	ret = vf_device_watch(vdev);
	if (ret)
		goto free;
	/* Before the first interrupt: what it is injected into must be there. */
	kvm_get_kvm(kvm);
	ret = vf_line_take(f);
	if (ret)
		goto put;
	list_add(&f->entry, &vf_forwards);
	return 0;

put:
	/* Not the last reference: the caller has the VM's file. */
	kvm_put_kvm(kvm);
	if (!vf_has_forwards(vdev))
		vf_device_unwatch(vdev);
free:
	kfree(f);
	return ret;
}

static long vf_forward(struct file *file, void __user *user)
{
	struct vfio_platform_device *vdev;
	struct vfio_forward_irq arg;
	struct file *device, *vm;
	struct kvm *kvm;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.argsz < sizeof(arg) || arg.flags)
		return -EINVAL;

	/* An open file keeps its device open, and its VM alive. */
	device = fget(arg.device_fd);
	if (!device)
		return -EBADF;
	vdev = vf_device_of(device);
	if (!vdev) {
		ret = -ENODEV;
		goto put_device;
	}
	vm = fget(arg.vm_fd);
	if (!vm) {
		ret = -EBADF;
		goto put_device;
	}
	if (!file_is_kvm(vm)) {
		ret = -EBADFD;
		goto put_vm;
	}
	kvm = vm->private_data;
	if (kvm->mm != current->mm) {
		ret = -EPERM;
		goto put_vm;
	}

	mutex_lock(&vf_lock);
	ret = vf_begin(file, vdev, arg.index, kvm, arg.spi);
	mutex_unlock(&vf_lock);
put_vm:
	fput(vm);
put_device:
	fput(device);
	return ret;
}

/* Finds what this file forwarded. The caller holds vf_lock and the device's file. */
static struct vf_forward *vf_own(struct file *file, struct file *device, u32 index)
{
	struct vfio_platform_device *vdev = vf_device_of(device);
	struct vf_forward *f;

	if (!vdev)
		return ERR_PTR(-ENODEV);
	if (index >= vdev->num_irqs)
		return ERR_PTR(-ENXIO);
	f = vf_find_forward(vdev, index);
	return f && f->owner == file ? f : ERR_PTR(-ENOENT);
}

static long vf_unforward(struct file *file, void __user *user)
{
	struct vfio_forward_irq arg;
	struct vf_forward *f;
	struct file *device;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.argsz < sizeof(arg) || arg.flags)
		return -EINVAL;
	device = fget(arg.device_fd);
	if (!device)
		return -EBADF;

	mutex_lock(&vf_lock);
	f = vf_own(file, device, arg.index);
	if (!IS_ERR(f))
		vf_end(f);
	mutex_unlock(&vf_lock);
	fput(device);
	return PTR_ERR_OR_ZERO(f);
}

static void vf_fill_state(struct vf_forward *f, struct vfio_forward_state *state)
{
	state->spi = f->intid - VGIC_NR_PRIVATE_IRQS;
	state->host_irq = f->host_irq;
	vf_line_count(f, &state->injected, &state->signalled);
	if (vf_line_is_active(f))
		state->flags |= VFIO_FORWARD_STATE_ACTIVE;
	if (vf_vgic_is_mapped(f))
		state->flags |= VFIO_FORWARD_STATE_MAPPED;
	if (f->was_enabled)
		state->flags |= VFIO_FORWARD_STATE_TRIGGER;
}

static long vf_get_state(struct file *file, void __user *user)
{
	struct vfio_forward_state state;
	struct vf_forward *f;
	struct file *device;

	if (copy_from_user(&state, user, sizeof(state)))
		return -EFAULT;
	if (state.argsz < sizeof(state) || state.flags)
		return -EINVAL;
	device = fget(state.device_fd);
	if (!device)
		return -EBADF;

	mutex_lock(&vf_lock);
	f = vf_own(file, device, state.index);
	if (!IS_ERR(f))
		vf_fill_state(f, &state);
	mutex_unlock(&vf_lock);
	fput(device);
	if (IS_ERR(f))
		return PTR_ERR(f);
	return copy_to_user(user, &state, sizeof(state)) ? -EFAULT : 0;
}

static long vf_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case VFIO_FORWARD_GET_API_VERSION:
		return arg ? -EINVAL : VFIO_FORWARD_API_VERSION;
	case VFIO_FORWARD_FORWARD:
		return vf_forward(file, user);
	case VFIO_FORWARD_UNFORWARD:
		return vf_unforward(file, user);
	case VFIO_FORWARD_GET_STATE:
		return vf_get_state(file, user);
	default:
		return -ENOTTY;
	}
}

static int vf_release(struct inode *inode, struct file *file)
{
	struct vf_forward *f, *next;

	mutex_lock(&vf_lock);
	list_for_each_entry_safe(f, next, &vf_forwards, entry)
		if (f->owner == file)
			vf_end(f);
	mutex_unlock(&vf_lock);
	return 0;
}

static const struct file_operations vf_fops = {
	.owner		= THIS_MODULE,
	.unlocked_ioctl	= vf_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.release	= vf_release,
	.llseek		= noop_llseek,
};

static struct miscdevice vf_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "vfio-forward",
	.fops	= &vf_fops,
	.mode	= 0600,
};

static int __init vf_init(void)
{
	int ret;

	ret = vf_symbols_find();
	if (ret)
		return ret;
	vf_device_closes = vf_end_device;
	vf_puts = alloc_workqueue("vfio-forward", 0, 0);
	if (!vf_puts)
		return -ENOMEM;
	ret = misc_register(&vf_misc);
	if (ret)
		destroy_workqueue(vf_puts);
	return ret;
}

static void __exit vf_exit(void)
{
	misc_deregister(&vf_misc);
	vf_device_exit();
	destroy_workqueue(vf_puts);
}

module_init(vf_init);
module_exit(vf_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Interrupts of VFIO platform devices that a guest completes with no exit");
