# Takes COUNT interrupts, each out of a halt; asks port ADDRESS for each, if that is not 0. One run each
# time it is entered.
20:
    mov rax, [rbx + {INTERRUPTS}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    inc qword ptr [rbx + {READY}]
1:
    cli
    mov rax, [rbx + {INTERRUPTS}]
    cmp rax, [rbx + {TARGET}]
    jae 3f
    mov rdx, [rbx + {ADDRESS}]
    test rdx, rdx
    jz 2f
    out dx, eax
2:
    sti
50:
    hlt
    jmp 1b
3:
    mov [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
30:
    lea rdx, [rip + 50b]
    jmp 16b
