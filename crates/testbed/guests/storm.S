# Rings COUNT times in the way that VALUE chooses (0 out, 1 store, 2 hypercall, 3 rep outs of 8) at ADDRESS, with a
# pattern in all vector registers. After each it compares the pattern and the callee-saved registers, until PAUSE is not
# 0. Says done with 0 in eax, or 1 if a register changed; RINGS counts the rings.
    mov rbx, rdi
    mov r14, 0x5bd1e9955bd1e995
    movq xmm0, r14
    punpcklqdq xmm0, xmm0
    .irp number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movdqa xmm\number, xmm0
    .endr
    fninit
    fldpi
    mov r12, [rbx + {COUNT}]
    mov rbp, [rbx + {VALUE}]
    mov r13, [rbx + {ADDRESS}]
2:
    cmp ebp, 1
    je 4f
    cmp ebp, 2
    je 5f
    ja 6f
    mov edx, r13d
    mov eax, r12d
3:
    out dx, eax
    cmp eax, r12d
    jne 9f
    cmp edx, r13d
    jne 9f
    jmp 7f
4:
    mov [r13], r12d
    jmp 7f
5:
    mov rdi, r13
    mov rsi, r12
    mov eax, {HYPERCALL_PAGE}
    call rax
    jmp 7f
6:
    mov edx, r13d
    mov rsi, rbx
    mov ecx, 8
    rep outsd
    test ecx, ecx
    jnz 9f
    sub rsi, 32
    cmp rsi, rbx
    jne 9f
    add qword ptr [rbx + {RINGS}], 7
7:
    inc qword ptr [rbx + {RINGS}]
    # An even number of equal patterns leaves the first one unchanged.
    .irp number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
    pxor xmm0, xmm\number
    .endr
    movq rax, xmm0
    cmp rax, r14
    jne 9f
    movq rax, xmm15
    cmp rax, r14
    jne 9f
    cmp qword ptr [rbx + {PAUSE}], 0
    jne 10f
    dec r12
    jnz 2b
10:
    fldpi
    fcomip st, st(1)
    jne 9f
    xor eax, eax
8:
    mov edx, {DONE_PORT}
    out dx, eax
9:
    mov eax, 1
    jmp 8b
