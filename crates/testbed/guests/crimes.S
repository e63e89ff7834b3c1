# Does one thing that a guest must not do: entry COUNT of a table of 16-byte entries.
    mov rbx, rdi
    mov ecx, [rbx + {COUNT}]
    shl ecx, 4
    lea rax, [rip + 2f]
    add rax, rcx
    mov rdi, [rbx + {ADDRESS}]
    mov rsi, [rbx + {VALUE}]
    mov ecx, 0xd0000000
    mov r8d, 257
    jmp rax
    .balign 16
2:
    # 0: openat
    mov eax, r8d
    syscall
    hlt
    .balign 16
    # 1
    mov eax, 5
    int 0x80
    hlt
    .balign 16
    # 2
    mov eax, 5
    sysenter
    hlt
    .balign 16
    # 3: #DE
    xor ecx, ecx
    div ecx
    hlt
    .balign 16
    # 4: #UD
    ud2
    hlt
    .balign 16
    # 5: #BP
    int3
    hlt
    .balign 16
    # 6: an SSE store
    movups [rcx], xmm0
    hlt
    .balign 16
    # 7: read, modify and write
    lock inc dword ptr [rcx]
    hlt
    .balign 16
    # 8: a string store
    mov edi, ecx
    rep stosb
    hlt
    .balign 16
    # 9: a jump to a hole
    jmp rcx
    .balign 16
    # 10: a jump to a non-canonical address
    bts rcx, 63
    jmp rcx
    .balign 16
    # 11: a load from above 4 GiB
    bts rcx, 40
    mov rax, [rcx]
    hlt
    .balign 16
    # 12: privileged
    mov rax, cr3
    hlt
    .balign 16
    # 13: privileged
    cli
    hlt
    .balign 16
    # 14: #DB
    push 0x302
    popfq
    nop
    hlt
    .balign 16
    # 15: a stack at a non-canonical address
    bts rsp, 63
    push rax
    hlt
    .balign 16
    # 16: input of strings to a hole
    mov edi, ecx
    insb
    hlt
    .balign 16
    # 17: a store that begins in RAM and ends in a hole
    mov [rdi], rax
    hlt
    .balign 16
    # 18: a jump to ADDRESS
    jmp rdi
    .balign 16
    # 19: 32-bit code
    push 0x23
    lea rax, [rip + 3f]
    push rax
    retfq
3:
    hlt
    .balign 16
    # 20: 32-bit code that does not trap
    push 0x23
    lea rax, [rip + 3f]
    push rax
    retfq
3:
    jmp 3b
