# Sends COUNT requests, and halts after each until the interrupt of its answer has come. Interrupts stay
# on: from one that comes between the look and the halt, the handler returns behind the halt.
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
    # Between the index and the look at whether the device wants to know.
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
# Ends the interrupt, which is an edge, before it tells the device that its reason was seen: the other way
# round the exit of the store would cost the guest the sparing of its EOI.
30:
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    call 16b
    mov eax, 1
    mov [r15 + 0x64], eax
    ret
