# Takes interrupts while it does what VALUE says, until PAUSE is not 0: 0 spins, 1 halts, 2 writes to port ADDRESS, 3
# stores at ADDRESS, 4 calls hypercall ADDRESS, 5 masks and unmasks. COUNT: bit 0 uses PV EOI; bit 2 checks the red
# zone; bit 3 takes work from 0x7d0 for each interrupt, and counts interrupts without work at 0x7c8; bit 4 then writes
# to port 0x78, before the EOI; bit 5 makes pin 4 of the I/O APIC level vector 0x60, and pin 5 edge vector 0x61. A
# pattern is in all vector registers and is compared in each round: says done with 0 in eax, or 1 if a register changed.
# RINGS counts rounds. The page of the parameters has a count for each vector at 0x800, the PV EOI word at 0x7f8, and
# the number of spared EOIs at 0x7f0. The handler is 16 bytes from the start; a return to the halt continues after it,
# because an emulated host may forget that nothing comes between sti and hlt.
    jmp 2f
    .balign 16
    push rax
    push rcx
    push rdx
    lea rax, [rip + 46f]
    cmp [rsp + 32], rax
    jne 18f
    inc qword ptr [rsp + 32]
18:
    mov rax, [rsp + 24]
    lock inc qword ptr [r15 + 8 * rax + 0x800]
    test byte ptr [r15 + {COUNT}], 8
    jz 15f
    cmp qword ptr [rsp + 24], 0xfe
    je 15f
    cmp qword ptr [r15 + 0x7d0], 0
    jne 16f
    inc qword ptr [r15 + 0x7c8]
    jmp 15f
16:
    lock dec qword ptr [r15 + 0x7d0]
    test byte ptr [r15 + {COUNT}], 16
    jz 15f
    out 0x78, al
15:
    btr dword ptr [r15 + 0x7f8], 0
    jnc 12f
    inc qword ptr [r15 + 0x7f0]
    jmp 13f
12:
    mov ecx, 0x80b
    xor eax, eax
    xor edx, edx
    wrmsr
13:
    pop rdx
    pop rcx
    pop rax
    lea rsp, [rsp + 8]
    jmp qword ptr [rip + 14f]
    .balign 8
14:
    .quad {HYPERCALL_PAGE} + 0x40
2:
    mov r15, rdi
    mov ecx, 0x1b
    rdmsr
    or eax, 0xc00
    wrmsr
    test byte ptr [r15 + {COUNT}], 1
    jz 3f
    lea rax, [r15 + 0x7f9]
    mov rdx, rax
    shr rdx, 32
    mov ecx, 0x4b564d04
    wrmsr
3:
    test byte ptr [r15 + {COUNT}], 32
    jz 17f
    mov eax, 0xfec00000
    mov dword ptr [rax], 0x19
    mov dword ptr [rax + 16], 0
    mov dword ptr [rax], 0x18
    mov dword ptr [rax + 16], 0x8060
    mov dword ptr [rax], 0x1b
    mov dword ptr [rax + 16], 0
    mov dword ptr [rax], 0x1a
    mov dword ptr [rax + 16], 0x61
17:
    mov r14, 0x5bd1e9955bd1e995
    movq xmm0, r14
    punpcklqdq xmm0, xmm0
    .irp number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movdqa xmm\number, xmm0
    .endr
    fninit
    fldpi
    mov rbp, [r15 + {VALUE}]
    mov r13, [r15 + {ADDRESS}]
    mov r12, -1
    # This comes last: from here on interrupts are taken, and the host sees that.
    mov ecx, 0x80f
    mov eax, 0x1ff
    xor edx, edx
    wrmsr
    sti
4:
    cmp ebp, 0
    je 40f
    cmp ebp, 1
    je 41f
    cmp ebp, 2
    je 42f
    cmp ebp, 3
    je 43f
    cmp ebp, 4
    je 44f
    cmp ebp, 5
    je 45f
40:
    test byte ptr [r15 + {COUNT}], 4
    jz 5f
    mov [rsp - 8], r14
    mov [rsp - 128], r14
    pause
    cmp [rsp - 8], r14
    jne 9f
    cmp [rsp - 128], r14
    jne 9f
    jmp 5f
41:
    cli
    cmp qword ptr [r15 + {PAUSE}], 0
    jne 6f
    sti
46:
    hlt
    jmp 5f
42:
    mov edx, r13d
    mov eax, r12d
    out dx, eax
    cmp eax, r12d
    jne 9f
    cmp edx, r13d
    jne 9f
    jmp 5f
43:
    mov [r13], r12d
    jmp 5f
44:
    mov rdi, r13
    mov rsi, r12
    mov eax, {HYPERCALL_PAGE}
    call rax
    jmp 5f
45:
    cli
    mov rax, [r15 + 0x7d8]
    sti
    nop
5:
    inc qword ptr [r15 + {RINGS}]
    .irp number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
    pxor xmm0, xmm\number
    .endr
    movq rax, xmm0
    cmp rax, r14
    jne 9f
    movq rax, xmm15
    cmp rax, r14
    jne 9f
    dec r12
    cmp qword ptr [r15 + {PAUSE}], 0
    je 4b
6:
    fldpi
    fcomip st, st(1)
    jne 9f
    xor eax, eax
7:
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 7b
9:
    mov eax, 1
    jmp 7b
