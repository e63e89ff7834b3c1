# Takes COUNT interrupts of QEMU's device edu, whose registers are at ADDRESS: raises each by a store to register
# 0x60 and halts until the handler has served it. It measures from the first store to the return of the last handler.
20:
    mov r12, [rbx + {COUNT}]
    mov r14, [rbx + {ADDRESS}]
    sti
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
1:
    mov r15, [rbx + {SERVED}]
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [rbx + {STAMP}], rax
    mov dword ptr [r14 + 0x60], 1
50:
    cmp [rbx + {SERVED}], r15
    jne 3f
    hlt
51:
    jmp 50b
3:
    dec r12
    jnz 1b
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r13
    mov [rbx + {TICKS}], rax
    cli
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
# Reads the device's interrupts (register 0x24) and acknowledges them (register 0x64). If there are none, the interrupt
# is spurious.
30:
    mov rcx, [rbx + {ADDRESS}]
    mov eax, [rcx + 0x24]
    test eax, eax
    jz 4f
    mov [rcx + 0x64], eax
    mov rax, [rbx + {ENTERED}]
    sub rax, [rbx + {STAMP}]
    add [rbx + {LATENCY}], rax
    inc qword ptr [rbx + {SERVED}]
4:
    lea rax, [rsp + 40]
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    jmp 16b
