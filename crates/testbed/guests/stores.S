# All forms of stores, to ADDRESS, which is below 4 GiB and a multiple of 4096.
    mov rbp, [rdi + {ADDRESS}]
    mov rax, 0x8877665544332211
    mov rbx, rax
    mov rcx, rax
    mov r12, rax
    mov rsi, rax
    mov edx, 0x100
    # Widths, with legacy and extended registers.
    mov [rbp], al
    mov [rbp], bh
    mov [rbp], sil
    mov [rbp], r12b
    mov [rbp], ax
    mov [rbp], r12w
    mov [rbp], ecx
    mov [rbp], r12d
    mov [rbp], rax
    mov [rbp], r12
    # Constants.
    mov byte ptr [rbp], 0x80
    mov word ptr [rbp], 0x8001
    mov dword ptr [rbp], 0x80000002
    mov qword ptr [rbp], -3
    # Addresses: displacements, index and scale, r12 and r13 as bases, no base.
    mov [rbp + 0x10], ecx
    mov [rbp - 0x80], ecx
    mov [rbp + 0x12340], ecx
    mov [rbp + rdx], ecx
    mov [rbp + rdx * 8 + 4], ecx
    mov r13, rbp
    mov [r13], ecx
    mov r12, rbp
    mov [r12], ecx
    mov [r12 + 8], ecx
    lea r9, [rbp + rbp]
    mov r10, rbp
    neg r10
    mov [r9 + r10], ecx
    mov [edx + 0x7fff0000], ecx
    mov [rdx * 4 + 0x7fff0000], ecx
    # A 32-bit address wraps at 4 GiB.
    lea r11, [rbp + 8]
    .byte 0x67, 0x41, 0x89, 0x4b, 0xf8
    # From the accumulator to an absolute address.
    movabs [0xd0000123], al
    movabs [0xd0000124], ax
    movabs [0xd0000128], eax
    movabs [0xd0000130], rax
    # Relative to the instruction pointer.
    mov [rip + 0x50000000], ecx
2:
    mov byte ptr [rip + 0x50000000], 0x77
3:
    # Past the caches, and with prefixes that mean nothing here.
    movnti [rbp], ecx
    movnti [rbp], rax
    .byte 0x2e, 0x89, 0x4d, 0x00
    .byte 0x3e, 0x48, 0x89, 0x45, 0x00
    .byte 0xf3, 0x89, 0x4d, 0x00
    .byte 0x66, 0x66, 0x89, 0x4d, 0x00
    # REX.W wins over the operand size.
    .byte 0x66, 0x48, 0x89, 0x45, 0x00
    mov rbx, rdi
    lea rax, [rip + 2b]
    mov [rbx + {STAMP}], rax
    lea rax, [rip + 3b]
    mov [rbx + {ANSWERED}], rax
    mov edx, {DONE_PORT}
    out dx, eax
