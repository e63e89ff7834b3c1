/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The interface of /dev/vfio-forward: level interrupts of vfio-platform and
 * vfio-amba devices, forwarded to shared peripheral interrupts of a guest.
 */
#ifndef _UAPI_VFIO_FORWARD_H
#define _UAPI_VFIO_FORWARD_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define VFIO_FORWARD_API_VERSION	1
#define VFIO_FORWARD_TYPE		0xf5

/**
 * struct vfio_forward_irq - one interrupt of a device and one of a guest
 * @argsz: size of this structure
 * @flags: must be 0
 * @device_fd: VFIO device file, of vfio-platform or vfio-amba
 * @index: the device's interrupt, as in VFIO_DEVICE_GET_IRQ_INFO
 * @vm_fd: KVM VM file; not read by UNFORWARD
 * @spi: the guest's shared peripheral interrupt, counted from 0 as the gsi of
 *	 KVM_IRQFD (INTID - 32); not read by UNFORWARD
 */
struct vfio_forward_irq {
	__u32 argsz;
	__u32 flags;
	__s32 device_fd;
	__u32 index;
	__s32 vm_fd;
	__u32 spi;
};

/**
 * struct vfio_forward_state - what a forwarded interrupt has done
 * @argsz: size of this structure
 * @flags: 0 when called; on return VFIO_FORWARD_STATE_*
 * @device_fd: VFIO device file
 * @index: the device's interrupt
 * @spi: the guest's interrupt
 * @host_irq: the interrupt's number in /proc/interrupts
 * @injected: physical interrupts given to the guest since FORWARD
 * @signalled: physical interrupts that the host took since FORWARD and did not
 *	       give to the guest by the list register; 0 unless something is
 *	       wrong
 */
struct vfio_forward_state {
	__u32 argsz;
	__u32 flags;
	__s32 device_fd;
	__u32 index;
	__u32 spi;
	__u32 host_irq;
	__u64 injected;
	__u64 signalled;
};

/* The physical interrupt is active: the guest has not ended it. */
#define VFIO_FORWARD_STATE_ACTIVE	0x1
/* The guest's interrupt is mapped to the physical one in the vGIC. */
#define VFIO_FORWARD_STATE_MAPPED	0x2
/* The device has a trigger eventfd, which is in use again after UNFORWARD. */
#define VFIO_FORWARD_STATE_TRIGGER	0x4

/* Returns VFIO_FORWARD_API_VERSION. */
#define VFIO_FORWARD_GET_API_VERSION	_IO(VFIO_FORWARD_TYPE, 0)

/*
 * Errors of the three:
 * EINVAL		argsz is too small, or flags is not 0
 * EBADF		a file is not open
 * ENODEV		device_fd is not an opened vfio-platform device
 * ENXIO		the device has no interrupt of this index
 * and of FORWARD:
 * EBADFD		vm_fd is not a KVM VM
 * EPERM		the VM is of another process
 * EAGAIN		the VM has no vGIC that is initialised
 * ERANGE		the vGIC has no such SPI
 * EADDRINUSE		the SPI belongs to another interrupt or device
 * EINPROGRESS		the SPI is pending or active in the guest
 * EOPNOTSUPP		the interrupt is triggered by edges, which have no state
 *			that the guest's end of interrupt could complete
 * EPROTONOSUPPORT	the host's interrupt controller does not separate
 *			priority drop and deactivation for this interrupt
 * EBUSY		the interrupt is forwarded, or VFIO's handler is not the
 *			only one
 * and of UNFORWARD and GET_STATE:
 * ENOENT		the interrupt was not forwarded by this open file
 *
 * While an interrupt is forwarded, VFIO_DEVICE_SET_IRQS for it fails by EBUSY.
 */
#define VFIO_FORWARD_FORWARD	_IOW(VFIO_FORWARD_TYPE, 1, struct vfio_forward_irq)
#define VFIO_FORWARD_UNFORWARD	_IOW(VFIO_FORWARD_TYPE, 2, struct vfio_forward_irq)
#define VFIO_FORWARD_GET_STATE	_IOWR(VFIO_FORWARD_TYPE, 3, struct vfio_forward_state)

#endif /* _UAPI_VFIO_FORWARD_H */
