# Two stores to rbx, both under a jump that replaces the first. Executes the second esi times, then both, and then the
# second again, without a stack.
    lea r8, [rip + 3f]
    lea r9, [rip + 5f]
    mov ecx, esi
    jmp r8
2:
    mov [rbx], al
3:
    mov [rbx], al
    dec ecx
    jz 4f
    jmp r8
4:
    jmp r9
5:
    lea r8, [rip + 2b]
    lea r9, [rip + 6f]
    mov ecx, esi
    jmp r8
6:
    xor esp, esp
    lea r8, [rip + 3b]
    lea r9, [rip + 7f]
    mov ecx, esi
    jmp r8
7:
    mov edx, {DONE_PORT}
    out dx, eax
