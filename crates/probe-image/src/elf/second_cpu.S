// The second CPU: from its start in real mode to a loop that halts. All of it is assembly. It uses only its own stack
// and no task state, so the gate of its one interrupt has no separate stack.

    .section .text.second_cpu, "ax"
    .code16
    .globl second_cpu_start, second_cpu_start_end
second_cpu_start:                       // copied to a page below 1 MiB; CS is that page's segment
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    lgdtl second_cpu_gdt - second_cpu_start
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x28, $second_cpu_32
    .balign 4
second_cpu_gdt:
    .word 47
    .long gdt
second_cpu_start_end:

    .code32
second_cpu_32:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $pml4, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax                     // PAE
    movl %eax, %cr4
    movl $0xc0000080, %ecx              // EFER.LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax               // PG, PE
    movl %eax, %cr0
    ljmp $8, $second_cpu_64

    .code64
second_cpu_64:
    movl $second_cpu_stack_top, %esp
    lidt interrupt_table
    // Its local APIC gets the current mode of the first CPU's, and keeps it.
    cmpl $2, SECOND_CPU_EOI_MODE
    jne 1f
    movl $0x1b, %ecx
    rdmsr
    orl $0xc00, %eax
    wrmsr
    movl $0x80f, %ecx
    movl $0x1ff, %eax
    xorl %edx, %edx
    wrmsr
    jmp 2f
1:  movq APIC_ADDRESS, %rax
    movl $0x1ff, 0xf0(%rax)
2:  incq SECOND_CPU_INTERRUPTS
3:  sti
    hlt
    jmp 3b

    .globl second_cpu_entry
second_cpu_entry:
    pushq %rax
    pushq %rdx
    pushq %rcx
    incq SECOND_CPU_INTERRUPTS
    cmpl $2, SECOND_CPU_EOI_MODE
    je 1f
    movq APIC_ADDRESS, %rax
    movl $0, 0xb0(%rax)
    jmp 2f
1:  movl $0x80b, %ecx
    xorl %eax, %eax
    xorl %edx, %edx
    wrmsr
2:  popq %rcx
    popq %rdx
    popq %rax
    iretq

    .section .data.second_cpu, "aw"
    .balign 8
    .globl interrupt_table
interrupt_table:
    .word 256 * 16 - 1
    .quad GATES

    .section .bss.second_cpu, "aw", @nobits
    .balign 16
    .skip 4096
second_cpu_stack_top:
