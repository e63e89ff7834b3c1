# Asks port ADDRESS for each of COUNT interrupts, and halts until it comes.
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
    mov edx, [rbx + {ADDRESS}]
    out dx, eax
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
