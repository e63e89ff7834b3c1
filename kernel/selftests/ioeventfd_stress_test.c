// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two vCPUs write all the time, while eventfds for what they write are assigned and removed, the module kvm_ioeventfd is
 * unloaded and loaded, and VMs are killed. A kernel with lockdep, KASAN and kmemleak says what is wrong then; the program itself
 * fails if an eventfd is signalled after DEASSIGN has returned.
 *
 * ioeventfd_stress_test [ROUNDS]
 */
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vm.h"

#define ROUNDS		8
/* Changes of a VM's registrations in a round. */
#define CHANGES		200
#define VCPUS		2
#define VALUES		16

#define DATAMATCH	KVM_IOEVENTFD_FLAG_DATAMATCH
#define DEASSIGN	KVM_IOEVENTFD_FLAG_DEASSIGN
#define PIO		KVM_IOEVENTFD_FLAG_PIO
#define MIXED		(1u << 31)
#define PAYLOAD		(1u << 30)

#define MODULE		"kvm_ioeventfd"
/* Where the guest's routines are, after those of vm.h. */
#define STORM		(VM_CODE + 0x800)

extern char storm[], storm_store[], storm_end[];

/* Each value 16 times. */
asm(".pushsection .rodata\n"
    "storm:	mov	$256, %ecx\n"
    "1:		mov	%ecx, %eax\n"
    "		and	$15, %eax\n"
    "		out	%eax, (%dx)\n"
    "		dec	%ecx\n"
    "		jnz	1b\n"
    "		ret\n"
    "storm_store: mov	$256, %ecx\n"
    "1:		mov	%ecx, %eax\n"
    "		and	$15, %eax\n"
    "		mov	%eax, (%rdx)\n"
    "		dec	%ecx\n"
    "		jnz	1b\n"
    "		ret\n"
    "storm_end:\n"
    ".popsection\n");

/* What a round tries: one kind at a time at an address. */
enum kind { VALUE, WILDCARD, STORED, MIXTURE, KINDS };

static const uint64_t addresses[] = { 0x500, 0x80000100 };
static uint64_t stored;
static bool done;

static void *write_all_the_time(void *argument)
{
	struct vm *vm = argument;

	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		vm_enter(vm);
	return NULL;
}

/* A vCPU of the same guest. */
static void add_vcpu(struct vm *vm, struct vm *other, int number)
{
	*other = *vm;
	other->vcpu = VM_IOCTL(vm->fd, KVM_CREATE_VCPU, number);
	other->run = vm_map(other->vcpu, vm->run_size);
	vm_set_registers(other);
}

static int change(struct vm *vm, bool is_mmio, enum kind kind, uint32_t flags, int value, int fd)
{
	struct kvm_ioeventfd argument = {
		.addr = addresses[is_mmio],
		.len = 4,
		.fd = fd,
		.datamatch = value,
		.flags = flags | (is_mmio ? 0 : PIO),
	};
	void *place = &stored;

	if (kind == VALUE || (kind == MIXTURE && value))
		argument.flags |= DATAMATCH;
	if (kind == MIXTURE)
		argument.flags |= MIXED;
	if (kind == STORED) {
		argument.flags |= PAYLOAD;
		memcpy(argument.pad + 4, &place, sizeof(place));
	}
	return ioctl(vm->fd, KVM_IOEVENTFD, &argument) < 0 ? errno : 0;
}

/* Changes registrations while the guest writes; the errors are those of KVM without the module and of a VM that is not its. */
static void change_all_the_time(struct vm *vm, unsigned int seed)
{
	bool there[2][VALUES] = {};
	int fds[2][VALUES], i, at, value;
	enum kind kind[2] = { VALUE, VALUE };

	for (at = 0; at < 2; at++)
		for (value = 0; value < VALUES; value++)
			fds[at][value] = vm_eventfd();
	for (i = 0; i < CHANGES; i++) {
		int count = 0;

		at = rand_r(&seed) % 2;
		for (value = 0; value < VALUES; value++)
			count += there[at][value];
		if (!count)
			kind[at] = rand_r(&seed) % KINDS;
		value = kind[at] == VALUE || kind[at] == MIXTURE ? rand_r(&seed) % VALUES : 0;
		if (!there[at][value]) {
			there[at][value] = !change(vm, at, kind[at], 0, value, fds[at][value]);
			continue;
		}
		if (change(vm, at, kind[at], DEASSIGN, value, fds[at][value]))
			vm_die("DEASSIGN of %d fails: %s\n", value, strerror(errno));
		there[at][value] = false;
		vm_count(fds[at][value]);
		usleep(100);
		if (vm_count(fds[at][value]))
			vm_die("value %d is signalled after DEASSIGN\n", value);
	}
	/* The others end with the VM, which ends with the process. */
}

/* A guest at one address, in its own process: it is killed at its end, or before. */
static int run_guest(bool is_mmio, unsigned int seed)
{
	struct vm vms[VCPUS];
	pthread_t threads[VCPUS];
	pid_t child = fork();
	int i;

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	vm_make(&vms[0], false);
	memcpy(vms[0].ram + STORM, storm, storm_end - storm);
	vms[0].mailbox->routine = STORM + (is_mmio ? storm_store - storm : 0);
	vms[0].mailbox->address = addresses[is_mmio];
	for (i = 1; i < VCPUS; i++)
		add_vcpu(&vms[0], &vms[i], i);
	for (i = 0; i < VCPUS; i++)
		pthread_create(&threads[i], NULL, write_all_the_time, &vms[i]);
	change_all_the_time(&vms[0], seed);
	/* Every other guest ends with its vCPUs in it. */
	if (seed % 2) {
		__atomic_store_n(&done, true, __ATOMIC_RELAXED);
		for (i = 0; i < VCPUS; i++)
			pthread_join(threads[i], NULL);
	}
	_exit(0);
}

/* Unloads and loads the module again and again; most of the time a guest has ioeventfds of it. */
static int run_loader(void)
{
	glob_t found;
	pid_t child = fork();
	int file;

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (glob("/lab/extra-modules/*-" MODULE ".ko", 0, NULL, &found) || !found.gl_pathc)
		_exit(0);
	file = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	for (;;) {
		syscall(SYS_delete_module, MODULE, O_NONBLOCK);
		usleep(1000);
		syscall(SYS_finit_module, file, "", 0);
		usleep(20000);
	}
}

static void load(void)
{
	glob_t found;

	if (glob("/lab/extra-modules/*-" MODULE ".ko", 0, NULL, &found) || !found.gl_pathc)
		return;
	syscall(SYS_finit_module, open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC), "", 0);
}

int main(int count, char **words)
{
	int rounds = count > 1 ? atoi(words[1]) : ROUNDS, round, killed = 0;
	int loader = run_loader();

	for (round = 0; round < rounds; round++) {
		int guests[2], i, status;

		for (i = 0; i < 2; i++)
			guests[i] = run_guest(i, 2 * round + i);
		if (round % 4 == 3) {
			usleep(20000 + 1000 * (round % 64));
			for (i = 0; i < 2; i++)
				kill(guests[i], SIGKILL);
		}
		for (i = 0; i < 2; i++) {
			waitpid(guests[i], &status, 0);
			killed += WIFSIGNALED(status);
			if (WIFEXITED(status) && WEXITSTATUS(status))
				return KSFT_FAIL;
			if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
				vm_die("a guest ended with signal %d\n", WTERMSIG(status));
		}
	}
	kill(loader, SIGKILL);
	waitpid(loader, NULL, 0);
	load();
	printf("%d guests, %d of them killed\n", 2 * rounds, killed);
	return KSFT_PASS;
}
