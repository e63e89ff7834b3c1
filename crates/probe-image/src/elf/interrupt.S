// Handlers of interrupts and exceptions. They are in assembly, because code from a compiler could save vector registers
// within what is measured.

    .set VECTOR_FRAME_RIP, 24           // above three saved registers

    .section .text.interrupt, "ax"
    .code64

    // Makes an interrupt of `halt_here` return to the instruction after it. An interrupt between `sti` and `hlt`
    // normally comes after `hlt`; SVM emulated by QEMU's TCG loses that shadow, and with it the wake-up.
    .macro LEAVE_HALT
    cmpq $halt_here, VECTOR_FRAME_RIP(%rsp)
    jne 9f
    incq VECTOR_FRAME_RIP(%rsp)
9:
    .endm

    .macro TICKS to
    rdtsc
    shlq $32, %rdx
    orq %rax, %rdx
    movq %rdx, \to
    .endm

    // The interrupt that a row waits for.
    .globl interrupt_entry
interrupt_entry:
    pushq %rax
    pushq %rdx
    pushq %rcx
    TICKS %rcx
    movq %rcx, INTERRUPT_AT
    incq INTERRUPTS
    // A level line: reads the device's interrupt status. On a PCI device, the read also acknowledges it.
    movq STATUS_ADDRESS, %rdx
    testq %rdx, %rdx
    jz 2f
    cmpl $0, STATUS_ACKNOWLEDGE
    jne 1f
    movb (%rdx), %al
    jmp 2f
1:  movl (%rdx), %eax                   // virtio-mmio: InterruptStatus, then InterruptACK
    movl %eax, 4(%rdx)
2:  TICKS %rcx
    call end_of_interrupt
    movq %rcx, %rax
    pushq %rax
    TICKS %rcx
    popq %rax
    subq %rax, %rcx
    addq %rcx, EOI_TICKS
    LEAVE_HALT
    popq %rcx
    popq %rdx
    popq %rax
    iretq

    // Preserves RCX; RAX and RDX are free.
end_of_interrupt:
    cmpl $0, PV_EOI_ON
    je 1f
    btrl $0, PV_EOI_WORD
    jc 3f
1:  cmpl $2, EOI_MODE
    je 2f
    movq APIC_ADDRESS, %rax
    movl $0, 0xb0(%rax)
    ret
2:  pushq %rcx
    movl $0x80b, %ecx
    xorl %eax, %eax
    xorl %edx, %edx
    wrmsr
    popq %rcx
3:  ret

    // The watchdog: ends a halt, and an instruction that would never complete.
    .globl watchdog_entry
watchdog_entry:
    pushq %rax
    pushq %rdx
    pushq %rcx
    incq WATCHDOGS
    call end_of_interrupt
    LEAVE_HALT
    movl $fixups_start, %eax
1:  cmpl $fixups_end, %eax
    jae 3f
    movq (%rax), %rdx
    cmpq %rdx, VECTOR_FRAME_RIP(%rsp)
    je 2f
    addl $16, %eax
    jmp 1b
2:  movq 8(%rax), %rdx
    movq %rdx, VECTOR_FRAME_RIP(%rsp)
    movq $0x100, FAULT
3:  popq %rcx
    popq %rdx
    popq %rax
    iretq

    // Any other interrupt: none is expected, and its source is unknown.
    .globl stray_entry
stray_entry:
    pushq %rax
    pushq %rdx
    pushq %rcx
    incq STRAYS
    LEAVE_HALT
    popq %rcx
    popq %rdx
    popq %rax
    iretq

    // 32 exceptions, 16 bytes each.
    .balign 16
    .globl exception_entries
exception_entries:
    .set vector, 0
    .rept 32
    .balign 16
    .if !((vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30))
    pushq $0
    .endif
    pushq $vector
    jmp exception
    .set vector, vector + 1
    .endr

    // On the stack: vector, error code, RIP, CS, RFLAGS, RSP, SS. A guarded instruction continues at its fixup.
exception:
    pushq %rax
    pushq %rdx
    movl $fixups_start, %eax
1:  cmpl $fixups_end, %eax
    jae 3f
    movq (%rax), %rdx
    cmpq %rdx, 32(%rsp)
    je 2f
    addl $16, %eax
    jmp 1b
2:  movq 8(%rax), %rdx
    movq %rdx, 32(%rsp)
    movq 16(%rsp), %rax
    incq %rax
    movq %rax, FAULT
    popq %rdx
    popq %rax
    addq $16, %rsp
    iretq
3:  popq %rdx
    popq %rax
    cld
    movq (%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq %cr2, %rcx
    andq $-16, %rsp
    call exception_fatal
4:  hlt
    jmp 4b

    // sti; hlt; cli
    .globl halt_once
halt_once:
    sti
halt_here:
    hlt
    cli
    ret

    // Guarded instructions. Each returns 0, or one more than the vector of the fault, or 0x100 from the watchdog.
    .macro GUARD fixup
    .pushsection .fixups, "a"
    .quad 7f, \fixup
    .popsection
7:
    .endm

    .globl guarded_rdmsr                // (msr, *value)
guarded_rdmsr:
    movl %edi, %ecx
    GUARD guarded_failed
    rdmsr
    shlq $32, %rdx
    orq %rdx, %rax
    movq %rax, (%rsi)
    xorl %eax, %eax
    ret

    .globl guarded_wrmsr                // (msr, value)
guarded_wrmsr:
    movl %edi, %ecx
    movl %esi, %eax
    movq %rsi, %rdx
    shrq $32, %rdx
    GUARD guarded_failed
    wrmsr
    xorl %eax, %eax
    ret

    .globl guarded_vmcall, guarded_vmmcall
guarded_vmcall:                         // (number)
    pushq %rbx
    movl %edi, %eax
    xorl %ebx, %ebx
    GUARD guarded_call_failed
    vmcall
    xorl %eax, %eax
    popq %rbx
    ret
guarded_vmmcall:
    pushq %rbx
    movl %edi, %eax
    xorl %ebx, %ebx
    GUARD guarded_call_failed
    vmmcall
    xorl %eax, %eax
    popq %rbx
    ret
guarded_call_failed:
    popq %rbx
guarded_failed:
    movq FAULT, %rax
    ret

    // The tables of the precompiled core library refer to it. Nothing unwinds here, and the tables are dropped.
    .globl rust_eh_personality
rust_eh_personality:
    ud2

    // Functions that the compiler calls; on the host's target they come from libc.
    .globl memcpy, memmove, memset, memcmp, bcmp
memcpy:
    movq %rdi, %rax
    movq %rdx, %rcx
    rep movsb
    ret
memmove:
    movq %rdi, %rax
    movq %rdx, %rcx
    subq %rsi, %rdi
    cmpq %rdx, %rdi                     // unsigned: the target begins within the source
    leaq (%rsi,%rdi), %rdi
    jb 1f
    rep movsb
    ret
1:  leaq -1(%rdi,%rcx), %rdi
    leaq -1(%rsi,%rcx), %rsi
    std
    rep movsb
    cld
    ret
memset:
    movq %rdi, %r8
    movl %esi, %eax
    movq %rdx, %rcx
    rep stosb
    movq %r8, %rax
    ret
memcmp:
bcmp:
    xorl %eax, %eax
    movq %rdx, %rcx
    testq %rcx, %rcx
    jz 1f
    repe cmpsb
    movzbl -1(%rdi), %eax
    movzbl -1(%rsi), %edx
    subl %edx, %eax
1:  ret
