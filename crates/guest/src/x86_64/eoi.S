# VALUE 0: sends COUNT interrupts to its own vcpu, ends each, and measures only the EOIs. VALUE 1: sends COUNT
# interrupts, each of a higher priority class than the previous one, and leaves them in service. VALUE 2: ends COUNT
# interrupts.
20:
    mov qword ptr [rbx + {TICKS}], 0
    mov r12, [rbx + {COUNT}]
    cmp qword ptr [rbx + {VALUE}], 2
    je 6f
    mov r14d, {VECTOR}
    sti
1:
    mov r13, [rbx + {INTERRUPTS}]
    cmp qword ptr [rbx + {XAPIC}], 0
    jne 2f
    mov eax, r14d
    xor edx, edx
    mov ecx, 0x83f
    wrmsr
    jmp 3f
2:
    mov ecx, 0xfee00300
    lea eax, [r14 + 0x40000]
    mov [rcx], eax
3:
    pause
    cmp [rbx + {INTERRUPTS}], r13
    je 3b
    mov rax, [rbx + {VALUE}]
    shl eax, 4
    add r14d, eax
    dec r12
    jnz 1b
    cli
5:
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
6:
    call 15b
    dec r12
    jnz 6b
    jmp 5b
# The EOI is between the second and the third reading of the TSC. The first two readings give the cost of
# measuring, which is subtracted.
30:
    cmp qword ptr [rbx + {VALUE}], 0
    jne 7f
    call 4f
    mov r8, rax
    call 4f
    mov r9, rax
    call 15b
    call 4f
    sub rax, r9
    sub rax, r9
    add rax, r8
    add [rbx + {TICKS}], rax
7:
    ret
# The second lfence keeps the EOI from beginning before the TSC is read: rdtsc orders neither earlier nor later
# instructions (Intel SDM vol. 2, RDTSC), and a few instructions would fit into its own time.
4:
    lfence
    rdtsc
    lfence
    shl rdx, 32
    or rax, rdx
    ret
