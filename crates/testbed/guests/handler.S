# An interrupt handler that keeps a log, at 1 MiB + 0x9000 from the start of RAM: the number of words, and the words: a
# vector when it begins, the vector + 0x100 when it ends. The word at 0x8800 says what it does: bit 0 tries the PV EOI
# word at 0x8808, bit 1 otherwise writes an EOI, bit 2 lets itself be interrupted, bit 3 writes another EOI, bit 4
# clears IF in the flags that it returns with, bit 5 reads a port before the EOI, bit 6 moves the stack pointer of the
# interrupted code out of memory first. A return to a hlt continues after it, because an emulated host may forget that
# nothing comes between sti and hlt (docs/emulator-bugs.md).
    push rax
    push rcx
    push rdx
    push rdi
    mov edi, 0x209000
    mov rax, [rsp + 32]
    mov ecx, 1
    lock xadd [rdi], rcx
    mov [rdi + 8 * rcx + 8], rax
    test byte ptr [0x208800], 4
    jz 2f
    sti
    nop
    cli
2:
    test byte ptr [0x208800], 32
    jz 3f
    in al, 0x79
3:
    test byte ptr [0x208800], 1
    jz 4f
    btr dword ptr [0x208808], 0
    jc 5f
4:
    test byte ptr [0x208800], 2
    jz 5f
    mov ecx, 0x80b
    xor eax, eax
    xor edx, edx
    wrmsr
5:
    test byte ptr [0x208800], 8
    jz 6f
    mov ecx, 0x80b
    xor eax, eax
    xor edx, edx
    wrmsr
6:
    mov rax, [rsp + 32]
    or eax, 0x100
    mov ecx, 1
    lock xadd [rdi], rcx
    mov [rdi + 8 * rcx + 8], rax
    mov rax, [rsp + 40]
    cmp byte ptr [rax], 0xf4
    jne 8f
    inc qword ptr [rsp + 40]
8:
    test byte ptr [0x208800], 16
    jz 7f
    and dword ptr [rsp + 56], 0xfffffdff
7:
    pop rdi
    pop rdx
    pop rcx
    pop rax
    lea rsp, [rsp + 8]
    test byte ptr [0x208800], 64
    jz 8f
    mov esp, 0xd0000000
8:
    jmp qword ptr [rip + 9f]
    .balign 8
9:
    .quad {HYPERCALL_PAGE} + 0x40
