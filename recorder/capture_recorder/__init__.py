"""capture_recorder"""
