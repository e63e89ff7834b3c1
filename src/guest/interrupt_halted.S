# Takes COUNT interrupts, each out of a halt. One run each time it is entered.
20:
    mov rax, [rbx + {INTERRUPTS}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    inc qword ptr [rbx + {READY}]
1:
    cli
    mov rax, [rbx + {INTERRUPTS}]
    cmp rax, [rbx + {TARGET}]
    jae 2f
    sti
    hlt
    jmp 1b
2:
    mov [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
30:
    jmp 15b
