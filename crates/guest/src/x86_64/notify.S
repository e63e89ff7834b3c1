# Rings COUNT times with the macros of the previous file: it waits PAUSE ticks before each ring, and for the host's
# answer after it. rdi = parameters. `ring` follows right after the time of STAMP; `prepare` first does what `ring`
# needs and is not part of the ring. r12 to r14 are in use here.
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
    prepare
    mov r14, [rbx + {RINGS}]
    inc r14
    mov [rbx + {RINGS}], r14
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [rbx + {STAMP}], rax
    ring
4:
    pause
    cmp [rbx + {ANSWERED}], r14
    jb 4b
    dec r12
    jnz 2b
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 1b
.purgem prepare
.purgem ring
