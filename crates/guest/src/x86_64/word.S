# Adds 1 to the doorbell word.
# rdi = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov rbx, rdi
1:
    mov r12, [rbx + {COUNT}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
2:
    lock inc qword ptr [rbx + {WORD}]
    dec r12
    jnz 2b
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
