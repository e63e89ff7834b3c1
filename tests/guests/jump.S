# Loads all general registers from ADDRESS (in the order of their encoding) and jumps to VALUE.
    mov rax, [rdi + {VALUE}]
    mov rbx, [rdi + {ADDRESS}]
    mov [rip + 2f], rax
    mov rax, [rbx]
    mov rcx, [rbx + 8]
    mov rdx, [rbx + 16]
    mov rsp, [rbx + 32]
    mov rbp, [rbx + 40]
    mov rsi, [rbx + 48]
    mov rdi, [rbx + 56]
    mov r8, [rbx + 64]
    mov r9, [rbx + 72]
    mov r10, [rbx + 80]
    mov r11, [rbx + 88]
    mov r12, [rbx + 96]
    mov r13, [rbx + 104]
    mov r14, [rbx + 112]
    mov r15, [rbx + 120]
    mov rbx, [rbx + 24]
    jmp [rip + 2f]
    .balign 8
2:
    .quad 0
