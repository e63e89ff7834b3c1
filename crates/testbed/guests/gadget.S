# Makes a system call from the stub's own instruction at VALUE, again and again. ADDRESS has the call's number and three
# arguments; at 0x80 after them, the guest counts the calls. The stub's code after the instruction ends in a return,
# which comes back here wherever the stack pointer then is.
    mov rbx, [rdi + {ADDRESS}]
    mov rax, [rdi + {VALUE}]
    mov [rip + 4f], rbx
    mov [rip + 5f], rax
    lea rcx, [rip + 3f]
    xor edx, edx
2:
    mov [rbx + 8 * rdx + 0x100], rcx
    inc edx
    cmp edx, 32
    jne 2b
3:
    mov r11, [rip + 4f]
    inc qword ptr [r11 + 0x80]
    mov rax, [r11]
    mov rdi, [r11 + 8]
    mov rsi, [r11 + 16]
    mov rdx, [r11 + 24]
    lea rsp, [r11 + 0x100]
    # These point to free memory, which that code writes to with or without an index.
    mov ebx, 0x400000
    mov ebp, ebx
    mov r12d, ebx
    mov r13d, ebx
    mov r14d, ebx
    mov r15d, ebx
    jmp [rip + 5f]
    .balign 8
4:
    .quad 0
5:
    .quad 0
