// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's side: the SPI whose list register names the physical interrupt.
 *
 * KVM does the same for its timers with kvm_vgic_map_phys_irq(), which looks for
 * private interrupts of a vCPU and checks nothing. All that is changed here is in
 * struct vgic_irq and is protected by its irq_lock, the innermost lock of the vGIC.
 */

#include <linux/smp.h>

#include "internal.h"

static struct vgic_irq *vf_spi(struct vf_forward *f)
{
	return &f->kvm->arch.vgic.spis[f->intid - VGIC_NR_PRIVATE_IRQS];
}

/*
 * Ties the guest's interrupt to the physical one. From here on only the owner
 * can raise it, so an irqfd or KVM_IRQ_LINE cannot get between.
 */
int vf_vgic_map(struct vf_forward *f)
{
	struct vgic_dist *dist = &f->kvm->arch.vgic;
	struct vgic_irq *irq;
	unsigned long flags;
	int ret = 0;

	/* Once it is initialised, what it allocated stays as long as the VM. */
	mutex_lock(&f->kvm->arch.config_lock);
	if (!irqchip_in_kernel(f->kvm) || !vgic_initialized(f->kvm))
		ret = -EAGAIN;
	else if (f->intid - VGIC_NR_PRIVATE_IRQS >= dist->nr_spis)
		ret = -ERANGE;
	mutex_unlock(&f->kvm->arch.config_lock);
	if (ret)
		return ret;

	/*
	 * A list register may have what is not in the structure yet. A vCPU saves
	 * its list registers before the host takes an interrupt, so when each CPU has
	 * taken one, no list register names an interrupt that is idle here. It may
	 * be in the list of a vCPU even then, for as long as that vCPU sleeps.
	 */
	kick_all_cpus_sync();

	irq = vf_spi(f);
	raw_spin_lock_irqsave(&irq->irq_lock, flags);
	if (irq->hw || irq->owner) {
		ret = -EADDRINUSE;
	} else if (irq->active || irq->line_level || irq->pending_latch) {
		ret = -EINPROGRESS;
	} else {
		irq->hw = true;
		irq->host_irq = f->host_irq;
		irq->hwintid = f->hwintid;
		irq->ops = NULL;
		irq->owner = f;
	}
	raw_spin_unlock_irqrestore(&irq->irq_lock, flags);
	return ret;
}

/*
 * Unties it, in any state. On return no list register names the
 * physical interrupt, so the guest cannot deactivate it any more. If the guest
 * has begun to handle the interrupt, it ends it as one of software.
 */
void vf_vgic_unmap(struct vf_forward *f)
{
	struct vgic_irq *irq = vf_spi(f);
	unsigned long flags;

	raw_spin_lock_irqsave(&irq->irq_lock, flags);
	irq->hw = false;
	irq->host_irq = 0;
	irq->hwintid = 0;
	irq->owner = NULL;
	/* Nothing drives the line now, and what is not taken would never end. */
	irq->line_level = false;
	irq->pending_latch = false;
	raw_spin_unlock_irqrestore(&irq->irq_lock, flags);

	/*
	 * A vCPU that runs has a list register with the old contents, and one
	 * that is about to run may have: the request takes the first out of its
	 * guest and keeps the second from entering, before this returns.
	 */
	kvm_make_all_cpus_request(f->kvm, KVM_REQ_IRQ_PENDING | KVM_REQUEST_WAIT);
}

bool vf_vgic_is_mapped(struct vf_forward *f)
{
	struct vgic_irq *irq = vf_spi(f);
	unsigned long flags;
	bool mapped;

	raw_spin_lock_irqsave(&irq->irq_lock, flags);
	mapped = irq->hw && irq->owner == f && irq->hwintid == f->hwintid;
	raw_spin_unlock_irqrestore(&irq->irq_lock, flags);
	return mapped;
}
