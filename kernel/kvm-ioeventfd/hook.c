// SPDX-License-Identifier: GPL-2.0-only
/*
 * The way into KVM: ftrace sends the calls of kvm_ioeventfd() to the module, and
 * static calls reach what KVM does not export.
 *
 * A static call is a direct one. KVM's functions without an exported symbol may
 * be sealed against indirect branches (IBT), so a function pointer would fault.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/static_call.h>

#include "internal.h"

DEFINE_STATIC_CALL_NULL(ig_ioeventfd, kvm_ioeventfd);
DEFINE_STATIC_CALL_NULL(ig_register, kvm_io_bus_register_dev);
DEFINE_STATIC_CALL_NULL(ig_unregister, kvm_io_bus_unregister_dev);

/* An exported symbol of KVM: while this module is loaded, kvm is too. */
static void *const ig_needs_kvm __used = kvm_put_kvm;

/* Linux 6.1 has another name for it. */
#ifndef ftrace_regs_set_instruction_pointer
#define ftrace_regs_set_instruction_pointer ftrace_instruction_pointer_set
#endif

/*
 * The address of a function is that of a probe on it, which is at the call that
 * ftrace makes.
 */
static unsigned long ig_find(const char *name)
{
	struct kprobe probe = { .symbol_name = name, .flags = KPROBE_FLAG_DISABLED };
	int ret = register_kprobe(&probe);

	if (!ret) {
		unregister_kprobe(&probe);
		if (probe.flags & KPROBE_FLAG_FTRACE)
			return (unsigned long)probe.addr;
		ret = -EOPNOTSUPP;
	}
	pr_err("this kernel has no function %s that ftrace and a probe find (error %d)\n",
	       name, ret);
	return 0;
}

int ig_kvm_ioeventfd(struct kvm *kvm, struct kvm_ioeventfd *args)
{
	return static_call(ig_ioeventfd)(kvm, args);
}

int ig_register_dev(struct ig_group *group)
{
	return static_call(ig_register)(group->kvm, group->bus, group->address,
					group->length, &group->dev);
}

void ig_unregister_dev(struct ig_group *group)
{
	static_call(ig_unregister)(group->kvm, group->bus, &group->dev);
}

/* The reference is held while a call is in the module, which may sleep there. */
static int ig_taken_over(struct kvm *kvm, struct kvm_ioeventfd *args)
{
	int ret = ig_ioeventfd(kvm, args);

	module_put(THIS_MODULE);
	return ret;
}

static void notrace ig_redirect(unsigned long ip, unsigned long parent,
				struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	/* A module that is about to go leaves the call to KVM. */
	if (try_module_get(THIS_MODULE))
		ftrace_regs_set_instruction_pointer(fregs, (unsigned long)ig_taken_over);
}

static struct ftrace_ops ig_ftrace = {
	.func = ig_redirect,
	/* The callback does not call kvm_ioeventfd(), so it cannot recurse. */
	.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT |
		 FTRACE_OPS_FL_RECURSION,
};

int ig_hook(void)
{
	unsigned long ioeventfd = ig_find("kvm:kvm_ioeventfd");
	unsigned long add = ig_find("kvm:kvm_io_bus_register_dev");
	unsigned long remove = ig_find("kvm:kvm_io_bus_unregister_dev");
	int ret;

	if (!ioeventfd || !add || !remove)
		return -EOPNOTSUPP;
	/* After the call that ftrace makes, so it is not redirected. */
	static_call_update(ig_ioeventfd,
			   (typeof(&kvm_ioeventfd))(ioeventfd + MCOUNT_INSN_SIZE));
	static_call_update(ig_register, (typeof(&kvm_io_bus_register_dev))add);
	static_call_update(ig_unregister, (typeof(&kvm_io_bus_unregister_dev))remove);

	ret = ftrace_set_filter_ip(&ig_ftrace, ioeventfd, 0, 0);
	if (ret)
		pr_err("kvm_ioeventfd() cannot be traced (error %d)\n", ret);
	else
		ret = register_ftrace_function(&ig_ftrace);
	if (ret)
		ftrace_free_filter(&ig_ftrace);
	return ret;
}

void ig_unhook(void)
{
	unregister_ftrace_function(&ig_ftrace);
	ftrace_free_filter(&ig_ftrace);
	ig_remove_kept();
	/* A task may be between its module_put() and KVM. It does not sleep there. */
	synchronize_rcu_tasks();
}
