# Adds 1 to the doorbell word, and waits until the host has answered.
# rdi = parameters. Rings COUNT times: it waits PAUSE ticks before each ring, and for the answer after it.
    mov rbx, rdi
1:
    mov r12, [rbx + {COUNT}]
2:
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
3:
    pause
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r13
    cmp rax, [rbx + {PAUSE}]
    jb 3b
    mov r14, [rbx + {RINGS}]
    inc r14
    mov [rbx + {RINGS}], r14
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [rbx + {STAMP}], rax
    lock inc qword ptr [rbx + {WORD}]
4:
    pause
    cmp [rbx + {ANSWERED}], r14
    jb 4b
    dec r12
    jnz 2b
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 1b
