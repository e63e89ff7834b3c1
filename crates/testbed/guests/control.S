# rdmsr and wrmsr if VALUE is not 0; hlt; hypercalls from stacks at all offsets from 16.
# Results go to ADDRESS.
    mov rbx, rdi
    mov r15, [rbx + {ADDRESS}]
    cmp qword ptr [rbx + {VALUE}], 0
    je 1f
    mov rax, -1
    mov rdx, -1
    mov rcx, 0xffffffff00000010
    rdmsr
    mov [r15], rax
    mov [r15 + 8], rdx
    mov ecx, 0x1b
    mov rax, 0x1111111155667788
    mov rdx, 0x2222222211223344
    wrmsr
1:
    hlt
    mov qword ptr [r15 + 16], 77
    mov rbp, rsp
    xor r12d, r12d
2:
    mov rsp, rbp
    sub rsp, r12
    mov r13, rsp
    mov edi, 9
    mov rsi, r12
    mov eax, {HYPERCALL_PAGE}
    call rax
    cmp rsp, r13
    jne 3f
    mov [r15 + 24 + r12 * 8], rax
    inc r12
    cmp r12, 16
    jb 2b
    mov rsp, rbp
    mov edx, {DONE_PORT}
    out dx, eax
3:
    ud2
