// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings: memory of the VMM's to which the doorbells of a VM append what its guest
 * writes. The pages are pinned, so a vCPU neither waits nor fails there.
 */

#include <linux/capability.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

#define IG_RING_BITS 8

static DEFINE_MUTEX(ig_rings_lock);
/* By their first page, which no other memory has while it is pinned. */
static DEFINE_HASHTABLE(ig_rings, IG_RING_BITS);

static int ig_ring_pin(struct ig_ring *ring, unsigned long address)
{
	int count = ring->pages_count;
	int ret = pin_user_pages_fast(address, count, FOLL_WRITE | FOLL_LONGTERM,
				      ring->pages);

	if (ret == count)
		return 0;
	if (ret > 0)
		unpin_user_pages(ring->pages, ret);
	return ret < 0 ? ret : -EFAULT;
}

static struct ig_ring *ig_ring_new(struct kvm *kvm,
				   const struct kvm_ioeventfd_ring_pad *pad)
{
	int count = DIV_ROUND_UP(sizeof(struct kvm_ioeventfd_ring) +
				 pad->entries * sizeof(struct kvm_ioeventfd_ring_entry),
				 PAGE_SIZE);
	struct ig_ring *ring = kzalloc(struct_size(ring, pages, count),
				       GFP_KERNEL_ACCOUNT);
	int ret;

	if (!ring)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&ring->lock);
	ring->mask = pad->entries - 1;
	ring->kvm = kvm;
	ring->users = 1;
	ring->pages_count = count;
	ret = ig_ring_pin(ring, pad->address);
	if (ret)
		goto free;
	ring->shared = vmap(ring->pages, count, VM_MAP, PAGE_KERNEL);
	if (ring->shared)
		return ring;
	ret = -ENOMEM;
	unpin_user_pages(ring->pages, count);
free:
	kfree(ring);
	return ERR_PTR(ret);
}

static void ig_ring_free(struct ig_ring *ring)
{
	vunmap(ring->shared);
	unpin_user_pages_dirty_lock(ring->pages, ring->pages_count, true);
	kfree(ring);
}

static void ig_ring_uncharge(struct ig_ring *ring)
{
	atomic64_sub(ring->pages_count, &ring->kvm->mm->pinned_vm);
}

/* Counts the ring's pages towards the VMM's RLIMIT_MEMLOCK. */
static int ig_ring_charge(struct ig_ring *ring)
{
	s64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if (atomic64_add_return(ring->pages_count, &ring->kvm->mm->pinned_vm) <= limit ||
	    capable(CAP_IPC_LOCK))
		return 0;
	ig_ring_uncharge(ring);
	return -ENOMEM;
}

/* The ring that has this memory, or NULL. An error if it has only some of it. */
static struct ig_ring *ig_ring_find(const struct ig_ring *wanted)
{
	size_t size = wanted->pages_count * sizeof(wanted->pages[0]);
	struct ig_ring *ring;

	hash_for_each_possible(ig_rings, ring, node, (unsigned long)wanted->pages[0]) {
		if (ring->kvm != wanted->kvm || ring->pages[0] != wanted->pages[0])
			continue;
		if (ring->mask == wanted->mask && !memcmp(ring->pages, wanted->pages, size))
			return ring;
		return ERR_PTR(-EEXIST);
	}
	return NULL;
}

/* The ring to use instead of this one, which may be itself. */
static struct ig_ring *ig_ring_share(struct ig_ring *ring)
{
	struct ig_ring *found = ig_ring_find(ring);
	int ret;

	if (IS_ERR(found))
		return found;
	if (found) {
		found->users++;
		return found;
	}
	ret = ig_ring_charge(ring);
	if (ret)
		return ERR_PTR(ret);
	/* Now no other ring appends here. */
	ring->tail = READ_ONCE(ring->shared->tail);
	hash_add(ig_rings, &ring->node, (unsigned long)ring->pages[0]);
	return ring;
}

/* The ring in this memory, which is a new one if the VM has none there. */
struct ig_ring *ig_ring_get(struct kvm *kvm, const struct kvm_ioeventfd_ring_pad *pad)
{
	struct ig_ring *ring, *shared;

	if (!PAGE_ALIGNED(pad->address) || !is_power_of_2(pad->entries) ||
	    pad->entries > KVM_IOEVENTFD_RING_MAX_ENTRIES)
		return ERR_PTR(-EINVAL);
	ring = ig_ring_new(kvm, pad);
	if (IS_ERR(ring))
		return ring;
	mutex_lock(&ig_rings_lock);
	shared = ig_ring_share(ring);
	mutex_unlock(&ig_rings_lock);
	if (shared != ring)
		ig_ring_free(ring);
	return shared;
}

/* The registration's vCPUs append no more. */
void ig_ring_put(struct ig_ring *ring)
{
	bool is_last;

	mutex_lock(&ig_rings_lock);
	is_last = !--ring->users;
	if (is_last)
		hash_del(&ring->node);
	mutex_unlock(&ig_rings_lock);
	if (!is_last)
		return;
	ig_ring_uncharge(ring);
	ig_ring_free(ring);
}
