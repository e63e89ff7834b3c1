# Its parameters are in the page before its code. Makes the COUNT jumps at ADDRESS in turn, forever: each is the 16
# general registers in the order of their encoding, and the target. Before each jump, the VALUE words from its rsp on
# are set to 16 bytes from the start of this program, so that a jump into code that ends with a ret comes back. RINGS
# counts the jumps that came back. Once PAUSE is not 0, the next one says done.
    jmp 4f
    .balign 16
2:
    lea rbx, [rip + 2b - 4112]
    inc qword ptr [rbx + {RINGS}]
    cmp qword ptr [rbx + {PAUSE}], 0
    je 3f
    mov edx, {DONE_PORT}
    out dx, eax
3:
    mov rax, [rip + 8f]
    inc rax
    xor ecx, ecx
    cmp rax, [rbx + {COUNT}]
    cmovae rax, rcx
    mov [rip + 8f], rax
4:
    lea rbx, [rip + 2b - 4112]
    mov rax, [rip + 8f]
    imul rax, rax, 136
    add rax, [rbx + {ADDRESS}]
    mov rcx, [rax + 128]
    mov [rip + 7f], rcx
    mov rcx, [rbx + {VALUE}]
    test rcx, rcx
    jz 6f
    mov rdi, [rax + 32]
    lea rdx, [rip + 2b]
5:
    mov [rdi + 8 * rcx - 8], rdx
    dec rcx
    jnz 5b
6:
    mov rbx, rax
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
    jmp [rip + 7f]
    .balign 8
7:
    .quad 0
8:
    .quad 0
