# Fills the COUNT bytes at ADDRESS with another value in each round, forever; VALUE is the first.
    mov rbx, rdi
    mov rax, [rbx + {VALUE}]
    mov r9, 0x9e3779b97f4a7c15
2:
    mov rdi, [rbx + {ADDRESS}]
    mov rcx, [rbx + {COUNT}]
    shr rcx, 3
3:
    mov [rdi], rax
    add rdi, 8
    imul rax, r9
    inc rax
    dec rcx
    jnz 3b
    mov edx, [rbx + {PAUSE}]
    test edx, edx
    jz 2b
    out dx, eax
    jmp 2b
