/* A PerfStubs tool that does nothing. */
void ps_tool_initialize(void);
void *ps_tool_timer_create(const char *name);
void ps_tool_timer_start(void *timer);
void ps_tool_timer_stop(void *timer);

void ps_tool_initialize(void)
{
}

void *ps_tool_timer_create(const char *name)
{
    return (void *)name;
}

void ps_tool_timer_start(void *timer)
{
    (void)timer;
}

void ps_tool_timer_stop(void *timer)
{
    (void)timer;
}
