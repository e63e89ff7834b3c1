# Executes the CPU's hypercall instruction: vmmcall if VALUE is 1, otherwise vmcall. The hypercall number is -1,
# which no hypercall has.
# rdi = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov rbx, rdi
1:
    mov r12, [rbx + {COUNT}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
    cmp qword ptr [rbx + {VALUE}], 1
    je 3f
2:
    mov eax, -1
    vmcall
    dec r12
    jnz 2b
    jmp 4f
3:
    mov eax, -1
    vmmcall
    dec r12
    jnz 3b
4:
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
