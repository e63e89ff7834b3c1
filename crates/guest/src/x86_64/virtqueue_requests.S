# Sends COUNT requests, each after the answer to the previous one. The macros of an earlier file wait for the answer.
# The previous file has set up the queue.
    begin
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
    await_answer
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
    handler
.purgem begin
.purgem await_answer
.purgem handler
