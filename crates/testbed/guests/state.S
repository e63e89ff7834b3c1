# Loads all registers from the page at AREA (1 MiB from the start of RAM), leaves the guest in a chosen way, and saves
# all registers there. In AREA: 0x000 sixteen general registers to load, 0x80 flags to load; 0x100 general registers as
# saved, 0x180 flags as saved; 0x200 the place to jump to, 0x300 the parameters; 0x1000 extended state to load; 0x4000
# extended state as saved. COUNT chooses the way, VALUE is the mask of the extended state. Says done and begins again.
    mov [0x200300], rdi
2:
    mov rbx, [0x200300]
    mov rcx, [rbx + {COUNT}]
    lea rax, [rip + 10f]
    cmp ecx, 0
    je 3f
    lea rax, [rip + 11f]
    cmp ecx, 1
    je 3f
    lea rax, [rip + 12f]
    cmp ecx, 2
    je 3f
    lea rax, [rip + 13f]
    cmp ecx, 3
    je 3f
    lea rax, [rip + 14f]
    cmp ecx, 4
    je 3f
    lea rax, [rip + 15f]
3:
    mov [0x200200], rax
    mov eax, [rbx + {VALUE}]
    xor edx, edx
    xrstor64 [0x201000]
    push qword ptr [0x200080]
    popfq
    mov rax, [0x200000]
    mov rcx, [0x200008]
    mov rdx, [0x200010]
    mov rbx, [0x200018]
    mov rsp, [0x200020]
    mov rbp, [0x200028]
    mov rsi, [0x200030]
    mov rdi, [0x200038]
    mov r8, [0x200040]
    mov r9, [0x200048]
    mov r10, [0x200050]
    mov r11, [0x200058]
    mov r12, [0x200060]
    mov r13, [0x200068]
    mov r14, [0x200070]
    mov r15, [0x200078]
    jmp qword ptr [0x200200]
10:
    out dx, eax
    jmp 20f
11:
    mov [rcx], eax
    jmp 20f
12:
    movsx ebx, byte ptr [rcx]
    jmp 20f
13:
    in eax, dx
    jmp 20f
14:
    call [rip + 30f]
    jmp 20f
15:
    hlt
20:
    mov [0x200100], rax
    mov [0x200108], rcx
    mov [0x200110], rdx
    mov [0x200118], rbx
    mov [0x200120], rsp
    mov [0x200128], rbp
    mov [0x200130], rsi
    mov [0x200138], rdi
    mov [0x200140], r8
    mov [0x200148], r9
    mov [0x200150], r10
    mov [0x200158], r11
    mov [0x200160], r12
    mov [0x200168], r13
    mov [0x200170], r14
    mov [0x200178], r15
    # A different stack, so that the red zone of the stack under test can be checked.
    mov esp, 0x120000
    pushfq
    pop qword ptr [0x200180]
    push 2
    popfq
    mov rbx, [0x200300]
    mov eax, [rbx + {VALUE}]
    xor edx, edx
    xsave64 [0x204000]
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 2b
    .balign 8
30:
    .quad {HYPERCALL_PAGE}
