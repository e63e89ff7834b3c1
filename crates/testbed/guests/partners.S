# Sends COUNT interrupts to the vCPU whose APIC ID is ADDRESS, one at a time: vector VALUE, each after the other vCPU
# has said that it took the one before. It takes the same vector itself, and says so; other vectors are not counted. The
# page of a vCPU's parameters is ADDRESS pages from the one at 2 MiB; the word at 0x800 in it counts what the vCPU took.
# If PAUSE is 1, it halts while it waits. It says done when both vCPUs are done. The handler is 16 bytes from the start;
# a return to the halt continues after it, as in interrupts.S.
    jmp 2f
    .balign 16
    push rax
    push rcx
    push rdx
    lea rax, [rip + 10f]
    cmp [rsp + 32], rax
    jne 11f
    inc qword ptr [rsp + 32]
11:
    mov rax, [rsp + 24]
    cmp rax, [r15 + {VALUE}]
    jne 12f
    inc qword ptr [r15 + 0x800]
12:
    mov ecx, 0x80b
    xor eax, eax
    xor edx, edx
    wrmsr
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
    mov ecx, 0x80f
    mov eax, 0x1ff
    xor edx, edx
    wrmsr
    mov r12, [r15 + {ADDRESS}]
    mov r14, r12
    shl r14, 12
    add r14, 0x200000
    xor ebx, ebx
    # Ready, and wait for the other.
    mov qword ptr [r15 + {STAMP}], 1
3:
    pause
    cmp qword ptr [r14 + {STAMP}], 0
    je 3b
    sti
4:
    mov ecx, 0x830
    mov eax, [r15 + {VALUE}]
    mov rdx, r12
    wrmsr
    inc rbx
    mov [r15 + {RINGS}], rbx
    # What the other vCPU sent.
5:
    cmp qword ptr [r15 + {PAUSE}], 0
    je 6f
    cli
    cmp [r15 + 0x800], rbx
    jae 7f
    sti
10:
    hlt
    jmp 5b
6:
    pause
    cmp [r15 + 0x800], rbx
    jb 6b
7:
    sti
    # Two interrupts that are sent before one is taken would become one.
8:
    pause
    cmp [r14 + 0x800], rbx
    jb 8b
    cmp rbx, [r15 + {COUNT}]
    jb 4b
    cli
    mov edx, {DONE_PORT}
    xor eax, eax
    out dx, eax
9:
    jmp 9b
