# COUNT times: an output to port ADDRESS, then a branch after it, into bytes that a patched jump covers. r12 counts
# outputs, r13 executions of the next instruction, which the branch also reaches.
    mov rbx, rdi
    xor r13d, r13d
    mov r12, [rbx + {COUNT}]
    mov edx, [rbx + {ADDRESS}]
    mov eax, [rbx + {VALUE}]
    xor ecx, ecx
2:
    out dx, eax
3:
    inc r13
    xor ecx, 1
    jnz 3b
    dec r12
    jnz 2b
    mov [rbx + {RINGS}], r13
    mov edx, {DONE_PORT}
    out dx, eax
