# Sends COUNT interrupts to its own vcpu and measures from the write of the register to the handler's return.
20:
    mov r12, [rbx + {COUNT}]
    sti
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r14, rax
1:
    mov r13, [rbx + {INTERRUPTS}]
    mov eax, {VECTOR}
    xor edx, edx
    mov ecx, 0x83f
    wrmsr
2:
    cmp [rbx + {INTERRUPTS}], r13
    je 2b
    dec r12
    jnz 1b
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r14
    mov [rbx + {TICKS}], rax
    cli
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
30:
    jmp 15b
