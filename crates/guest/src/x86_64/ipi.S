# The first vcpu sends COUNT interrupts to the second, each after the second has counted the previous one.
20:
    test rsi, rsi
    jnz 3f
    # The second vcpu counts READY up when it is ready, once for each run. STAMP counts the runs.
    mov r15, [rbx + {STAMP}]
    inc r15
    mov [rbx + {STAMP}], r15
1:
    pause
    cmp [rbx + {READY}], r15
    jb 1b
    mov r12, [rbx + {COUNT}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r14, rax
2:
    mov r13, [rbx + {INTERRUPTS}]
    mov eax, {VECTOR}
    mov edx, 1
    mov ecx, 0x830
    wrmsr
1:
    pause
    cmp [rbx + {INTERRUPTS}], r13
    je 1b
    dec r12
    jnz 2b
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r14
    mov [rbx + {TICKS}], rax
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
3:
    mov rax, [rbx + {INTERRUPTS}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    sti
    inc qword ptr [rbx + {READY}]
4:
    pause
    mov rax, [rbx + {INTERRUPTS}]
    cmp rax, [rbx + {TARGET}]
    jb 4b
    cli
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 3b
# The second vcpu has no PV EOI word, so it writes the EOI register.
30:
    xor eax, eax
    xor edx, edx
    mov ecx, 0x80b
    wrmsr
    ret
