/* What motifs include first; nothing of it is needed here. */
