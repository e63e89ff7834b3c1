# Sets the FS and GS bases to VALUE, leaves by a port, memory, a hypercall and string output, and then writes the bases
# that it finds to ADDRESS.
    mov rbx, rdi
    mov rax, [rbx + {VALUE}]
    wrfsbase rax
    wrgsbase rax
    mov r15, [rbx + {ADDRESS}]
    mov edx, 0x77
    out dx, al
    mov ecx, 0xd0000000
    mov [rcx], eax
    mov eax, [rcx]
    mov edi, 1
    mov esi, 2
    mov eax, {HYPERCALL_PAGE}
    call rax
    mov rsi, rbx
    mov edx, 0x77
    mov ecx, 3
    rep outsb
    rdfsbase rax
    mov [r15], rax
    rdgsbase rax
    mov [r15 + 8], rax
    mov edx, {DONE_PORT}
    out dx, eax
