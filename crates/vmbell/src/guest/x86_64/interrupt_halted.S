# Takes COUNT interrupts, each out of a halt; asks port ADDRESS for each, if that is not 0. One run each
# time it is entered. Interrupts stay on: from one that comes between the look and the halt, the handler
# returns behind the halt.
20:
    mov rax, [rbx + {INTERRUPTS}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    inc qword ptr [rbx + {READY}]
    sti
50:
    mov rax, [rbx + {INTERRUPTS}]
    cmp rax, [rbx + {TARGET}]
    jae 3f
    mov rdx, [rbx + {ADDRESS}]
    test rdx, rdx
    jz 2f
    # It comes out of the halt, however soon it is raised.
    cli
    out dx, eax
    sti
2:
    hlt
51:
    jmp 50b
3:
    mov [rbx + {RINGS}], rax
    cli
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
30:
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    jmp 16b
