// SPDX-License-Identifier: GPL-2.0-only
/*
 * The physical side: takes an interrupt from VFIO and gives it back.
 *
 * VFIO requests the interrupt when the device is opened and frees it when it is
 * closed. In between its irqaction gets another handler and another argument, while
 * the interrupt is disabled and no handler runs, so nothing here can fail halfway
 * and giving back cannot fail at all. For that time the name of VFIO's interrupt
 * is an error, which is VFIO's own mark for an interrupt that it does not have:
 * VFIO_DEVICE_SET_IRQS then fails with it. Otherwise it would call disable_irq(), which
 * does not return while the interrupt is active in the guest.
 *
 * The callers hold vf_lock. Locks taken here: igate of the device, in it the lock
 * of VFIO's interrupt or the lock of the descriptor.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irq.h>
#include <linux/irqdesc.h>

#include "internal.h"

/* Shared peripheral interrupts, which a list register can name. */
#define VF_FIRST_SPI	32
#define VF_LAST_SPI	1019

/*
 * The host has acknowledged the interrupt and dropped its priority; the interrupt
 * stays active, because its chip knows that it is forwarded.
 */
static irqreturn_t vf_handler(int irq, void *data)
{
	struct vf_forward *f = data;

	WRITE_ONCE(f->injected, f->injected + 1);
	vf_inject(f->kvm, f->intid, f);
	return IRQ_HANDLED;
}

static struct irq_desc *vf_desc(struct vf_forward *f)
{
	return irq_data_to_desc(irq_get_irq_data(f->host_irq));
}

/* Puts the own handler in the place of VFIO's. The interrupt is disabled. */
static int vf_swap_in(struct vf_forward *f)
{
	struct irq_desc *desc = vf_desc(f);
	struct irqaction *action;
	unsigned long flags;
	int ret = -EBUSY;

	raw_spin_lock_irqsave(&desc->lock, flags);
	action = desc->action;
	if (action && !action->next && !action->thread_fn &&
	    action->dev_id == &f->vdev->irqs[f->index]) {
		f->handler = action->handler;
		f->dev_id = action->dev_id;
		action->handler = vf_handler;
		action->dev_id = f;
		f->taken_before = desc->tot_count;
		ret = 0;
	}
	raw_spin_unlock_irqrestore(&desc->lock, flags);
	return ret;
}

static void vf_swap_out(struct vf_forward *f)
{
	struct irq_desc *desc = vf_desc(f);
	unsigned long flags;

	raw_spin_lock_irqsave(&desc->lock, flags);
	desc->action->handler = f->handler;
	desc->action->dev_id = f->dev_id;
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}

/* Undoes a mask of VFIO's, of which its ioctl can no longer be asked. */
static void vf_unmask(struct vfio_platform_irq *irq)
{
	unsigned long flags;

	spin_lock_irqsave(&irq->lock, flags);
	if (irq->masked) {
		irq->masked = false;
		enable_irq(irq->hwirq);
	}
	spin_unlock_irqrestore(&irq->lock, flags);
}

static int vf_line_check(struct vf_forward *f)
{
	struct vfio_platform_irq *irq = &f->vdev->irqs[f->index];
	struct irq_data *data;

	if (IS_ERR(irq->name))
		return PTR_ERR(irq->name);
	if (!(irq->flags & VFIO_IRQ_INFO_AUTOMASKED)) {
		pr_info_ratelimited("interrupt %u of %s is triggered by edges: it has no state that the guest could end\n",
				    f->index, f->vdev->name);
		return -EOPNOTSUPP;
	}

	data = irq_get_irq_data(irq->hwirq);
	if (!data)
		return -ENXIO;
	while (data->parent_data)
		data = data->parent_data;
	f->host_irq = irq->hwirq;
	f->hwintid = data->hwirq;
	if (data->hwirq < VF_FIRST_SPI || data->hwirq > VF_LAST_SPI)
		return -EPROTONOSUPPORT;
	return 0;
}

int vf_line_take(struct vf_forward *f)
{
	struct vfio_platform_irq *irq;
	int ret;

	mutex_lock(&f->vdev->igate);
	if (f->index >= f->vdev->num_irqs) {
		ret = -ENXIO;
		goto out;
	}
	irq = &f->vdev->irqs[f->index];
	ret = vf_line_check(f);
	if (ret)
		goto out;
	ret = vf_vgic_map(f);
	if (ret)
		goto out;

	/* The interrupt is VFIO's: active for as long as its handler runs. */
	disable_irq(f->host_irq);
	ret = irq_set_vcpu_affinity(f->host_irq, f->kvm);
	if (ret) {
		pr_info_ratelimited("the interrupt controller cannot leave the end of interrupt %u to a guest (error %d)\n",
				    f->host_irq, ret);
		ret = -EPROTONOSUPPORT;
		goto unmap;
	}
	ret = vf_swap_in(f);
	if (ret)
		goto unset;

	f->name = irq->name;
	irq->name = ERR_PTR(-EBUSY);
	f->was_enabled = irq->trigger;
	vf_unmask(irq);
	/* Without a trigger VFIO has not enabled it since it was requested. */
	if (!f->was_enabled)
		enable_irq(f->host_irq);
	enable_irq(f->host_irq);
	goto out;

unset:
	irq_set_vcpu_affinity(f->host_irq, NULL);
unmap:
	vf_vgic_unmap(f);
	enable_irq(f->host_irq);
out:
	mutex_unlock(&f->vdev->igate);
	return ret;
}

void vf_line_give_back(struct vf_forward *f)
{
	struct vfio_platform_irq *irq = &f->vdev->irqs[f->index];

	mutex_lock(&f->vdev->igate);
	/*
	 * Neither disable_irq() nor synchronize_irq(): both wait until the chip says
	 * that the interrupt is not active, and that may be up to the guest.
	 */
	disable_irq_nosync(f->host_irq);
	synchronize_hardirq(f->host_irq);

	vf_vgic_unmap(f);
	irq_set_vcpu_affinity(f->host_irq, NULL);
	/* No list register names it now, so nothing else ends it. */
	irq_set_irqchip_state(f->host_irq, IRQCHIP_STATE_ACTIVE, false);
	vf_swap_out(f);

	irq->name = f->name;
	if (f->was_enabled)
		enable_irq(f->host_irq);
	mutex_unlock(&f->vdev->igate);
}

/* Interrupts since they are forwarded: those given to the guest, and others. */
void vf_line_count(struct vf_forward *f, u64 *injected, u64 *other)
{
	struct irq_desc *desc = vf_desc(f);
	unsigned int taken;
	unsigned long flags;

	raw_spin_lock_irqsave(&desc->lock, flags);
	*injected = READ_ONCE(f->injected);
	taken = desc->tot_count - f->taken_before;
	*other = taken - (unsigned int)*injected;
	/* The kernel counts an interrupt with the lock, the handler without. */
	if (*other && irqd_irq_inprogress(&desc->irq_data))
		--*other;
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}

bool vf_line_is_active(struct vf_forward *f)
{
	bool active = false;

	irq_get_irqchip_state(f->host_irq, IRQCHIP_STATE_ACTIVE, &active);
	return active;
}
