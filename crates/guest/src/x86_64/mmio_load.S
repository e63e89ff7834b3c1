# Loads four bytes from ADDRESS, and keeps the last value in the doorbell word.
# rdi = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov rbx, rdi
1:
    mov r12, [rbx + {COUNT}]
    mov r14, [rbx + {ADDRESS}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
2:
    mov eax, [r14]
    dec r12
    jnz 2b
    mov [rbx + {WORD}], rax
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
    jmp 1b
