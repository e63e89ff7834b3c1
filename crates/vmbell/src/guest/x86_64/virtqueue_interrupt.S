# Sends COUNT requests and halts after each until the interrupt of its answer has come. Interrupts stay enabled:
# if one comes between the comparison and hlt, the handler returns behind hlt.
    sti
2:
    mov r12, [rbx + {COUNT}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
3:
    inc r14
    mov [rsi + 0x200], r14
    mov [rsi + 0x82], r14w
    # Orders the store of the index before the load of the flags that say whether the device wants a
    # notification.
    mfence
    test word ptr [rsi + 0x100], 1
    jnz 4f
    xor eax, eax
    mov [r15 + 0x50], eax
4:
50:
    cmp [rsi + 0x102], r14w
    je 5f
    hlt
51:
    jmp 50b
5:
    mov rax, [rsi + 0x280]
    not rax
    cmp rax, r14
    jne 9f
    dec r12
    jnz 3b
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r13
    mov [rbx + {TICKS}], rax
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 2b
9:
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 9b
# Does the EOI of the interrupt, which is an edge, before it writes the device's interrupt acknowledge register.
# In the other order the exit of that store would take the PV EOI bit back, and the EOI would need the register.
30:
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    call 16b
    mov eax, 1
    mov [r15 + 0x64], eax
    ret
