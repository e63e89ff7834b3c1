# Sends COUNT interrupts to its own vcpu and measures only their EOIs.
20:
    mov qword ptr [rbx + {TICKS}], 0
    mov r12, [rbx + {COUNT}]
    sti
1:
    mov r13, [rbx + {INTERRUPTS}]
    cmp qword ptr [rbx + {XAPIC}], 0
    jne 2f
    mov eax, {VECTOR}
    xor edx, edx
    mov ecx, 0x83f
    wrmsr
    jmp 3f
2:
    mov ecx, 0xfee00300
    mov eax, {VECTOR} + 0x40000
    mov [rcx], eax
3:
    pause
    cmp [rbx + {INTERRUPTS}], r13
    je 3b
    dec r12
    jnz 1b
    cli
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
# The EOI is between the second and the third reading of the TSC. The first two readings give the cost of
# measuring, which is subtracted.
30:
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
    ret
# The second lfence keeps the EOI from beginning before the TSC is read: rdtsc waits for nothing and holds nothing
# back (Intel SDM vol. 2, RDTSC), and a few instructions would fit into its own time.
4:
    lfence
    rdtsc
    lfence
    shl rdx, 32
    or rax, rdx
    ret
