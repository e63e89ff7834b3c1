# ecx rounds: a store to rbx after a test that branches past it every second time, so that the branch ends under a jump
# that replaces the store.
2:
    test ecx, 1
    jnz 3f
    mov [rbx], al
3:
    dec ecx
    jnz 2b
    mov edx, {DONE_PORT}
    out dx, eax
